-- upgrade: it only writes to a new table. In a migration of its own: no lock of another table is held while this one is awaited.
CREATE TRIGGER disputes_open_inserted AFTER INSERT ON disputes FOR EACH ROW
    WHEN (NEW.status = 'needs_response') EXECUTE FUNCTION count_open_dispute();
-- upgrade: likewise.
CREATE TRIGGER disputes_open_updated AFTER UPDATE OF status ON disputes FOR EACH ROW
    WHEN ((OLD.status = 'needs_response') <> (NEW.status = 'needs_response')) EXECUTE FUNCTION count_open_dispute();
