-- E-mails to customers. Which of them an account sends:
CREATE TABLE mail_settings (
    account_id uuid PRIMARY KEY REFERENCES accounts,
    invoices boolean NOT NULL,
    receipts boolean NOT NULL,
    collections boolean NOT NULL,
    -- Of customers whose country does not tell it.
    language text NOT NULL CHECK (language IN ('de', 'en', 'es', 'fr', 'ja')),
    -- The only recipients in test mode.
    test_recipients text[] NOT NULL CHECK (cardinality(test_recipients) <= 20)
);

-- An e-mail about the event with this id; at most one, by the primary key. The text and the recipient are read when it is sent, so that
-- the row has no data of the customer.
CREATE TABLE mails (
    id uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES accounts,
    kind text NOT NULL CHECK (kind IN ('invoice', 'receipt', 'collection_failed')),
    -- When the next attempt is due, or the claim of the current one ends; NULL once it has ended.
    due_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    -- What came of it. A reason has no data of the customer.
    outcome text CHECK (outcome IN ('sent', 'not_sent', 'failed')),
    reason text,
    ended_at timestamptz,
    CHECK ((due_at IS NULL) = (outcome IS NOT NULL) AND (ended_at IS NULL) = (outcome IS NULL))
);
CREATE INDEX mails_due ON mails (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX mails_of_account ON mails (account_id, ended_at) WHERE outcome = 'sent';
CREATE INDEX mails_ended ON mails (ended_at) WHERE ended_at IS NOT NULL;

CREATE OR REPLACE FUNCTION emit_events(ids uuid[], accounts uuid[], kinds text[], payloads text[], times timestamptz[])
RETURNS SETOF uuid LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO events (id, account_id, type, payload, created_at, xact)
    SELECT n.*, pg_current_xact_id()::text::bigint FROM unnest(ids, accounts, kinds, payloads, times) AS n;
    IF kinds && '{invoice.issued,invoice.paid,invoice.payment_failed}' THEN
        INSERT INTO mails (id, account_id, kind, due_at)
        SELECT n.id, n.account, m.kind, clock_timestamp()
        FROM unnest(ids, accounts, kinds) AS n (id, account, type)
        JOIN mail_settings s ON s.account_id = n.account
        JOIN (VALUES ('invoice.issued', 'invoice'), ('invoice.paid', 'receipt'),
                     ('invoice.payment_failed', 'collection_failed')) AS m (type, kind) ON m.type = n.type
        WHERE CASE m.kind WHEN 'invoice' THEN s.invoices WHEN 'receipt' THEN s.receipts ELSE s.collections END;
    END IF;
    RETURN QUERY
        INSERT INTO webhook_pending AS p (id, account_id, endpoint_id, event_id, due_at, created_at)
        SELECT new_ulid(n.at), n.account, e.id, n.id, clock_timestamp(), n.at
        FROM unnest(ids, accounts, kinds, times) AS n (id, account, kind, at)
        JOIN webhook_endpoints e ON e.account_id = n.account
        WHERE e.deleted_at IS NULL AND e.status = 'enabled' AND (e.enabled_events = '{}' OR n.kind = ANY (e.enabled_events))
        RETURNING p.endpoint_id;
END
$$;
