-- Of a card that a payer's page saves for a payment, written with the intent. The token in our URL of a challenge: the charge is
-- the same request at the provider even if saving the card is repeated after a restore. The customer's default card at that time:
-- if another one has become the default since, that one stays.
ALTER TABLE payment_methods ADD COLUMN awaits_action_token text;
ALTER TABLE payment_methods ADD COLUMN replaces_default_id uuid;
ALTER TABLE payment_methods ADD CONSTRAINT payment_methods_replaces_default FOREIGN KEY (account_id, customer_id, replaces_default_id)
    REFERENCES payment_methods (account_id, customer_id, id) NOT VALID;

-- Gives up the card that still awaits a payment when that has ended: the payment was not approved in full, or a worker of the
-- previous version, which knows nothing of the card, has recorded its outcome.
CREATE FUNCTION give_up_awaiting_card() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE payment_methods SET status = 'failed', awaits_operation_id = NULL, awaits_action_token = NULL
    WHERE account_id = NEW.account_id AND saved_for_payment_id = NEW.id AND awaits_operation_id IS NOT NULL;
    RETURN NULL;
END $$;
-- upgrade: it changes only a card that awaits the payment, which the previous version never does.
CREATE TRIGGER payments_awaiting_card AFTER UPDATE OF status ON payments FOR EACH ROW
    WHEN (OLD.status IN ('processing', 'requires_action') AND NEW.status NOT IN ('processing', 'requires_action')
        AND NEW.invoice_id IS NOT NULL AND NEW.payment_method_id IS NULL)
    EXECUTE FUNCTION give_up_awaiting_card();
