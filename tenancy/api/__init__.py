"""REST of people and tenants, and what every REST endpoint is made of (`endpoint`)."""
