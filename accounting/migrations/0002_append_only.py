"""The ledger refuses UPDATE and DELETE.

In production the tables belong to the migration role and the application's role has INSERT and
SELECT only. In the embedded default one role owns everything, and an owner cannot be denied its own
tables: these triggers hold the rule there, and against a slip of an admin anywhere. Corrections are
counter-transfers.
"""

from django.db import migrations

FUNCTION = """
CREATE FUNCTION accounting_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'The ledger is append-only: % on % is refused; post a counter-transfer.',
        TG_OP, TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$
"""
TABLES = ["accounting_usagerecord", "accounting_transfer", "accounting_batch"]


class Migration(migrations.Migration):

    dependencies = [("accounting", "0001_initial")]

    operations = [
        migrations.RunSQL(FUNCTION, "DROP FUNCTION accounting_refuse_change()"),
        *(
            migrations.RunSQL(
                f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON {table}"
                " FOR EACH STATEMENT EXECUTE FUNCTION accounting_refuse_change()",
                f"DROP TRIGGER append_only ON {table}",
            )
            for table in TABLES
        ),
    ]
