-- A card that a payer's page saves for a payment: that payment, and the id of the operation that will charge it, which is written
-- with the intent, so that the charge has the same reference at the provider even if saving the card is repeated after a restore.
-- The operation is NULL once the payment has ended. Until then the card is `processing`: the previous version, which would make
-- it active as soon as the provider has saved it and leave the payment unfinished, cannot record that.
ALTER TABLE payment_methods ADD COLUMN saved_for_payment_id uuid;
ALTER TABLE payment_methods ADD COLUMN awaits_operation_id uuid;
ALTER TABLE payment_methods ADD CONSTRAINT payment_methods_saved_for_payment FOREIGN KEY (account_id, saved_for_payment_id)
    REFERENCES payments (account_id, id) NOT VALID;
ALTER TABLE payment_methods ADD CONSTRAINT payment_methods_awaiting_is_processing
    CHECK (awaits_operation_id IS NULL OR status = 'processing' AND saved_for_payment_id IS NOT NULL) NOT VALID;

-- A subscription that names a card may name another one from now on.
-- upgrade: it only sets the version, and the previous version never changes the card.
CREATE TRIGGER subscriptions_card_version BEFORE UPDATE OF payment_method_id ON subscriptions FOR EACH ROW
    WHEN (OLD.payment_method_id IS DISTINCT FROM NEW.payment_method_id)
    EXECUTE FUNCTION raise_version();
