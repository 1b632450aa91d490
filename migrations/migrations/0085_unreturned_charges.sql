-- While a charge that belongs to no payment has not been returned, nothing else is charged for the same invoice or link.

-- The invoice or link, or for other payments the payment itself.
ALTER TABLE charge_anomalies
    ADD COLUMN paid_for uuid,
    -- When an operator confirmed that the amount was returned at the provider.
    ADD COLUMN returned_at timestamptz;

CREATE FUNCTION set_paid_for() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT coalesce(p.invoice_id, p.payment_link_id, p.id) INTO NEW.paid_for
    FROM payments p WHERE p.account_id = NEW.account_id AND p.id = NEW.payment_id;
    RETURN NEW;
END $$;
-- upgrade: only fills the new column.
CREATE TRIGGER charge_anomalies_paid_for BEFORE INSERT ON charge_anomalies
    FOR EACH ROW EXECUTE FUNCTION set_paid_for();

-- Refused reversals of the past were settled by operators, who could not record it.
-- upgrade: there are few such charges, and the previous version only inserts them.
UPDATE charge_anomalies c
SET paid_for = coalesce(p.invoice_id, p.payment_link_id, p.id),
    returned_at = CASE WHEN o.state IN ('failed', 'declined') THEN clock_timestamp() END
FROM payments p, operations o
WHERE p.account_id = c.account_id AND p.id = c.payment_id AND o.id = c.reversal_operation_id;
-- upgrade: the trigger above fills it.
ALTER TABLE charge_anomalies ALTER COLUMN paid_for SET NOT NULL;
-- upgrade: there are few such charges.
CREATE INDEX charge_anomalies_paid_for ON charge_anomalies (account_id, paid_for, id);

CREATE FUNCTION has_unreturned_charge(account uuid, paid_for uuid) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
RETURN EXISTS (
    SELECT FROM charge_anomalies c JOIN operations o ON o.id = c.reversal_operation_id
    WHERE c.account_id = has_unreturned_charge.account AND c.paid_for = has_unreturned_charge.paid_for
      AND c.returned_at IS NULL AND o.state <> 'succeeded');

-- What became of a payment's charge of a wrong amount.
CREATE FUNCTION charge_return(account uuid, paid_for uuid, payment uuid) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN (
    SELECT CASE WHEN c.returned_at IS NOT NULL OR o.state = 'succeeded' THEN 'returned'
                WHEN o.state IN ('failed', 'declined') THEN 'refused'
                ELSE 'pending' END
    FROM charge_anomalies c JOIN operations o ON o.id = c.reversal_operation_id
    WHERE c.account_id = charge_return.account AND c.paid_for = charge_return.paid_for
      AND c.payment_id = charge_return.payment
    ORDER BY c.id DESC LIMIT 1);

-- The constraint behind the checks. A transaction that inserts a payment has locked its invoice or link, as has one that
-- records a charge of it. The previous version does not check, and one refused payment would fail a batch of its
-- collections: only programs that set this setting are refused.
CREATE FUNCTION refuse_second_charge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('unified_payments.one_charge', true) = 'on'
        AND has_unreturned_charge(NEW.account_id, coalesce(NEW.invoice_id, NEW.payment_link_id)) THEN
        RAISE EXCEPTION 'an earlier charge for the same invoice or link has not been returned' USING
            ERRCODE = 'unique_violation',
            CONSTRAINT = CASE WHEN NEW.invoice_id IS NOT NULL THEN 'payments_one_live_per_invoice'
                              ELSE 'payments_one_live_per_link' END;
    END IF;
    RETURN NEW;
END $$;
-- upgrade: the previous version does not set the setting.
CREATE TRIGGER payments_second_charge BEFORE INSERT ON payments
    FOR EACH ROW WHEN (NEW.invoice_id IS NOT NULL OR NEW.payment_link_id IS NOT NULL)
    EXECUTE FUNCTION refuse_second_charge();
