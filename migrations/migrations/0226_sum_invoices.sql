-- upgrade: it only writes to a new table. In a migration of its own: no lock of another table is held while this one is awaited.
CREATE TRIGGER invoices_due_inserted AFTER INSERT ON invoices REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION count_due_invoices();
-- upgrade: likewise.
CREATE TRIGGER invoices_due_updated AFTER UPDATE ON invoices REFERENCING OLD TABLE AS former NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION count_due_invoices();
