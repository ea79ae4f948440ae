"""The queues of the workers, in one place: settings, ticks and the doctor speak of the same."""

QUEUES = ("dispatch", "observe", "accounting")
