-- The payment with whose approval a card becomes active. Until that payment ends, the card is `processing`: the previous version,
-- which would make it active as soon as the provider has saved it and leave the payment unfinished, cannot record that.
ALTER TABLE payment_methods ADD COLUMN awaits_payment_id uuid;
ALTER TABLE payment_methods ADD CONSTRAINT payment_methods_awaits_payment FOREIGN KEY (account_id, awaits_payment_id)
    REFERENCES payments (account_id, id) NOT VALID;
ALTER TABLE payment_methods ADD CONSTRAINT payment_methods_awaiting_is_processing
    CHECK (awaits_payment_id IS NULL OR status = 'processing') NOT VALID;

-- A subscription that names a card may name another one from now on.
-- upgrade: it only sets the version, and the previous version never changes the card.
CREATE TRIGGER subscriptions_card_version BEFORE UPDATE OF payment_method_id ON subscriptions FOR EACH ROW
    WHEN (OLD.payment_method_id IS DISTINCT FROM NEW.payment_method_id)
    EXECUTE FUNCTION raise_version();
