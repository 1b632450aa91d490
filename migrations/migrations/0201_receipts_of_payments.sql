-- The page on which a customer stops receipts that are about no invoice, whose page would do.
CREATE TABLE customer_pages (
    account_id uuid NOT NULL,
    customer_id uuid NOT NULL,
    -- At the end of its URL. Anyone who has it can stop the receipts.
    token text NOT NULL UNIQUE,
    PRIMARY KEY (account_id, customer_id),
    FOREIGN KEY (account_id, customer_id) REFERENCES customers (account_id, id)
);

CREATE OR REPLACE FUNCTION emit_events(ids uuid[], accounts uuid[], kinds text[], payloads text[], times timestamptz[])
RETURNS SETOF uuid LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO events (id, account_id, type, payload, created_at, xact)
    SELECT n.*, pg_current_xact_id()::text::bigint FROM unnest(ids, accounts, kinds, payloads, times) AS n;
    IF kinds && '{invoice.issued,invoice.paid,invoice.payment_failed,payment.captured}' THEN
        INSERT INTO mails (id, account_id, kind, due_at)
        SELECT n.id, n.account, m.kind, clock_timestamp()
        FROM unnest(ids, accounts, kinds, payloads) AS n (id, account, type, payload)
        JOIN mail_settings s ON s.account_id = n.account
        JOIN (VALUES ('invoice.issued', 'invoice'), ('invoice.paid', 'receipt'), ('payment.captured', 'receipt'),
                     ('invoice.payment_failed', 'collection_failed')) AS m (type, kind) ON m.type = n.type
        -- One expression, which depends on the settings: the events of accounts without settings are not parsed.
        WHERE CASE n.type
            WHEN 'invoice.issued' THEN s.invoices
            WHEN 'invoice.payment_failed' THEN s.collections
            WHEN 'invoice.paid' THEN s.receipts
            -- Invoices have receipts of their own, and the payer of a link is not known.
            ELSE s.receipts AND n.payload::jsonb #> '{data,object}' ? 'customerId'
                AND NOT n.payload::jsonb #> '{data,object}' ?| '{invoiceId,paymentLinkId}'
        END;
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
