"""The wire format of slurmrestd 22.05 (v0.0.38 and dbv0.0.38), as recorded from the real one."""
