"""Django's PostgreSQL backend with a cheaper health check (an ENGINE of `DATABASES`)."""
