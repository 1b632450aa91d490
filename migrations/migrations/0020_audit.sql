-- What operators did: who, when by the database's clock, to what. A row is written in the transaction of the change, and stays.

CREATE TABLE audit_log (
    id         uuid PRIMARY KEY DEFAULT new_ulid(clock_timestamp()),
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor      text NOT NULL CHECK (char_length(actor) BETWEEN 1 AND 200),
    -- Such as keys.revoke.
    action     text NOT NULL CHECK (action <> ''),
    account_id uuid REFERENCES accounts (id),
    -- What it was done to, by the id that people know it by.
    object     text CHECK (object <> ''),
    -- What else there is to say. Never a secret.
    detail     jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_log_of_account ON audit_log (account_id, id) WHERE account_id IS NOT NULL;
CREATE INDEX audit_log_of_object ON audit_log (object, id) WHERE object IS NOT NULL;

-- Whoever has the application's password can write here, and nothing more.
CREATE FUNCTION audit_log_is_only_added_to() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_log is only added to' USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER audit_log_is_only_added_to BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION audit_log_is_only_added_to();
