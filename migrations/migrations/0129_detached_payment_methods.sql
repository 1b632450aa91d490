-- When the merchant removed the card. It is then `failed` for the previous version, which does not charge or list such cards.
ALTER TABLE payment_methods ADD COLUMN detached_at timestamptz;
ALTER TABLE payment_methods ADD CONSTRAINT payment_methods_detached_is_not_charged
    CHECK (detached_at IS NULL OR status = 'failed') NOT VALID;
