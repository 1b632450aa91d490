-- What operators did: who, when by the database's clock, to which account. A row is written in the transaction of the change, and stays.

CREATE TABLE gateway.audit_log (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor    text NOT NULL CHECK (char_length(actor) BETWEEN 1 AND 200),
    -- Such as account.rotate_keys.
    action   text NOT NULL CHECK (action <> ''),
    username text CHECK (username <> ''),
    -- What else there is to say. Never a secret.
    detail   jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_log_of_account ON gateway.audit_log (username, id) WHERE username IS NOT NULL;

-- Whoever has the gateway's password can write here, and nothing more.
CREATE FUNCTION gateway.audit_log_is_only_added_to() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'gateway.audit_log is only added to' USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER audit_log_is_only_added_to BEFORE UPDATE OR DELETE OR TRUNCATE ON gateway.audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION gateway.audit_log_is_only_added_to();
