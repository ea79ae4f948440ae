"""REST of jobs, the queue, and what tenants use and are owed."""
