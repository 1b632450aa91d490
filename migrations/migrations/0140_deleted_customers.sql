-- When the merchant deleted the customer. The row stays for its payments and invoices, and holds nothing about a person.
ALTER TABLE customers ADD COLUMN deleted_at timestamptz;
-- The previous version does not know the column: this keeps it from writing to the row, and the triggers below from
-- creating anything for the customer.
ALTER TABLE customers ADD CONSTRAINT customers_deleted_is_empty CHECK (deleted_at IS NULL OR
    (email = '' AND name = '' AND custom_fields = '[]' AND num_nonnulls(phone, external_id, metadata,
        default_payment_method_id, default_billing_address_id, default_shipping_address_id) = 0)) NOT VALID;

-- The event's object was erased while an attempt could be in progress: its response may repeat what was sent, and is not
-- stored.
ALTER TABLE webhook_pending ADD COLUMN erased boolean NOT NULL DEFAULT false;

-- The lock waits for a deletion in progress. The error is that of the foreign key, so every version reports the customer
-- as unknown.
CREATE FUNCTION refuse_deleted_customer() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    deleted timestamptz;
BEGIN
    SELECT c.deleted_at INTO deleted FROM customers c
    WHERE c.account_id = NEW.account_id AND c.id = NEW.customer_id FOR KEY SHARE;
    IF deleted IS NOT NULL THEN
        RAISE EXCEPTION 'the customer is deleted' USING
            ERRCODE = 'foreign_key_violation', CONSTRAINT = TG_TABLE_NAME || '_customer';
    END IF;
    RETURN NEW;
END $$;
-- upgrade: refuses only rows of customers that a newer version has deleted.
CREATE TRIGGER addresses_deleted_customer BEFORE INSERT ON addresses
    FOR EACH ROW EXECUTE FUNCTION refuse_deleted_customer();
-- upgrade: refuses only rows of customers that a newer version has deleted.
CREATE TRIGGER payment_methods_deleted_customer BEFORE INSERT ON payment_methods
    FOR EACH ROW EXECUTE FUNCTION refuse_deleted_customer();
-- upgrade: refuses only rows of customers that a newer version has deleted.
CREATE TRIGGER subscriptions_deleted_customer BEFORE INSERT ON subscriptions
    FOR EACH ROW EXECUTE FUNCTION refuse_deleted_customer();
-- upgrade: refuses only rows of customers that a newer version has deleted.
CREATE TRIGGER recurring_invoices_deleted_customer BEFORE INSERT ON recurring_invoices
    FOR EACH ROW EXECUTE FUNCTION refuse_deleted_customer();
-- upgrade: refuses only rows of customers that a newer version has deleted.
CREATE TRIGGER invoices_deleted_customer BEFORE INSERT ON invoices
    FOR EACH ROW EXECUTE FUNCTION refuse_deleted_customer();
-- upgrade: refuses only the collection from customers that a newer version has deleted.
CREATE TRIGGER invoices_scheduled_deleted_customer BEFORE UPDATE OF status ON invoices
    FOR EACH ROW WHEN (NEW.status = 'scheduled' AND OLD.status <> 'scheduled')
    EXECUTE FUNCTION refuse_deleted_customer();
-- An open invoice can still be paid on its page.
-- upgrade: refuses only rows of customers that a newer version has deleted.
CREATE TRIGGER payments_deleted_customer BEFORE INSERT ON payments
    FOR EACH ROW WHEN (NEW.customer_id IS NOT NULL AND NEW.invoice_id IS NULL)
    EXECUTE FUNCTION refuse_deleted_customer();

-- The responses to be erased with a customer. Only declared here; the migrating program then builds each partition's.
CREATE INDEX webhook_deliveries_with_response ON ONLY webhook_deliveries (account_id, event_id)
    WHERE response_body IS NOT NULL;
