-- upgrade: it only writes to a new table. In a migration of its own: no lock of another table is held while this one is awaited.
CREATE TRIGGER subscriptions_active_inserted AFTER INSERT ON subscriptions REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION count_active_subscriptions();
-- upgrade: likewise.
CREATE TRIGGER subscriptions_active_updated AFTER UPDATE ON subscriptions REFERENCING OLD TABLE AS former NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION count_active_subscriptions();
