-- The version of an object rises with each change that merchants can see, whichever statement and release writes it.
ALTER TABLE payments ADD COLUMN version bigint NOT NULL DEFAULT 1;
ALTER TABLE refunds ADD COLUMN version bigint NOT NULL DEFAULT 1;
ALTER TABLE invoices ADD COLUMN version bigint NOT NULL DEFAULT 1;
ALTER TABLE collection_attempts ADD COLUMN version bigint NOT NULL DEFAULT 1;
ALTER TABLE recurring_invoices ADD COLUMN version bigint NOT NULL DEFAULT 1;
ALTER TABLE subscriptions ADD COLUMN version bigint NOT NULL DEFAULT 1;
ALTER TABLE plans ADD COLUMN version bigint NOT NULL DEFAULT 1;
ALTER TABLE payment_links ADD COLUMN version bigint NOT NULL DEFAULT 1;
ALTER TABLE customers ADD COLUMN version bigint NOT NULL DEFAULT 1;
ALTER TABLE addresses ADD COLUMN version bigint NOT NULL DEFAULT 1;
ALTER TABLE payment_methods ADD COLUMN version bigint NOT NULL DEFAULT 1;
ALTER TABLE webhook_endpoints ADD COLUMN version bigint NOT NULL DEFAULT 1;

CREATE FUNCTION raise_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.version := OLD.version + 1;
    RETURN NEW;
END $$;

-- upgrade: it only sets the new column.
CREATE TRIGGER payments_version BEFORE UPDATE ON payments FOR EACH ROW
    WHEN ((OLD.status, OLD.settled, OLD.amount, OLD.amount_captured, OLD.amount_refunded,
              OLD.amount_refund_pending, OLD.pending_operation, OLD.failure_code, OLD.metadata, OLD.external_id)
        IS DISTINCT FROM
          (NEW.status, NEW.settled, NEW.amount, NEW.amount_captured, NEW.amount_refunded,
              NEW.amount_refund_pending, NEW.pending_operation, NEW.failure_code, NEW.metadata, NEW.external_id))
    EXECUTE FUNCTION raise_version();
-- upgrade: it only sets the new column.
CREATE TRIGGER refunds_version BEFORE UPDATE ON refunds FOR EACH ROW
    WHEN ((OLD.status, OLD.failure_code)
        IS DISTINCT FROM
          (NEW.status, NEW.failure_code))
    EXECUTE FUNCTION raise_version();
-- upgrade: it only sets the new column.
CREATE TRIGGER invoices_version BEFORE UPDATE ON invoices FOR EACH ROW
    WHEN ((OLD.status, OLD.number, OLD.amount_paid, OLD.issued_at, OLD.due_at, OLD.collect_at,
              OLD.next_attempt_at, OLD.paid_at, OLD.payment_id, OLD.collection_exhausted, OLD.voided_at,
              OLD.metadata, OLD.external_id)
        IS DISTINCT FROM
          (NEW.status, NEW.number, NEW.amount_paid, NEW.issued_at, NEW.due_at, NEW.collect_at,
              NEW.next_attempt_at, NEW.paid_at, NEW.payment_id, NEW.collection_exhausted, NEW.voided_at,
              NEW.metadata, NEW.external_id))
    EXECUTE FUNCTION raise_version();
-- upgrade: it only sets the new column.
CREATE TRIGGER collection_attempts_version BEFORE UPDATE ON collection_attempts FOR EACH ROW
    WHEN ((OLD.status, OLD.decline_code, OLD.decline_type, OLD.next_attempt_at)
        IS DISTINCT FROM
          (NEW.status, NEW.decline_code, NEW.decline_type, NEW.next_attempt_at))
    EXECUTE FUNCTION raise_version();
-- upgrade: it only sets the new column.
CREATE TRIGGER recurring_invoices_version BEFORE UPDATE ON recurring_invoices FOR EACH ROW
    WHEN ((OLD.name, OLD.status, OLD.cadence_unit, OLD.cadence_interval, OLD.day_of_month,
              OLD.last_day_of_month, OLD.start_date, OLD.end_date, OLD.mode, OLD.template, OLD.next_date,
              OLD.occurrence_count, OLD.metadata, OLD.external_id)
        IS DISTINCT FROM
          (NEW.name, NEW.status, NEW.cadence_unit, NEW.cadence_interval, NEW.day_of_month,
              NEW.last_day_of_month, NEW.start_date, NEW.end_date, NEW.mode, NEW.template, NEW.next_date,
              NEW.occurrence_count, NEW.metadata, NEW.external_id))
    EXECUTE FUNCTION raise_version();
-- upgrade: it only sets the new column.
CREATE TRIGGER subscriptions_version BEFORE UPDATE ON subscriptions FOR EACH ROW
    WHEN ((OLD.status, OLD.current_period_start, OLD.current_period_end, OLD.next_billing_at, OLD.cancelled_at,
              OLD.metadata, OLD.external_id)
        IS DISTINCT FROM
          (NEW.status, NEW.current_period_start, NEW.current_period_end, NEW.next_billing_at, NEW.cancelled_at,
              NEW.metadata, NEW.external_id))
    EXECUTE FUNCTION raise_version();
-- upgrade: it only sets the new column.
CREATE TRIGGER plans_version BEFORE UPDATE ON plans FOR EACH ROW
    WHEN ((OLD.metadata, OLD.external_id)
        IS DISTINCT FROM
          (NEW.metadata, NEW.external_id))
    EXECUTE FUNCTION raise_version();
-- upgrade: it only sets the new column.
CREATE TRIGGER payment_links_version BEFORE UPDATE ON payment_links FOR EACH ROW
    WHEN ((OLD.status, OLD.paid_at, OLD.payment_id, OLD.cancelled_at, OLD.metadata, OLD.external_id)
        IS DISTINCT FROM
          (NEW.status, NEW.paid_at, NEW.payment_id, NEW.cancelled_at, NEW.metadata, NEW.external_id))
    EXECUTE FUNCTION raise_version();
-- upgrade: it only sets the new column.
CREATE TRIGGER customers_version BEFORE UPDATE ON customers FOR EACH ROW
    WHEN ((OLD.email, OLD.name, OLD.phone, OLD.external_id, OLD.custom_fields, OLD.metadata)
        IS DISTINCT FROM
          (NEW.email, NEW.name, NEW.phone, NEW.external_id, NEW.custom_fields, NEW.metadata))
    EXECUTE FUNCTION raise_version();
-- upgrade: it only sets the new column.
CREATE TRIGGER addresses_version BEFORE UPDATE ON addresses FOR EACH ROW
    WHEN ((OLD.first_name, OLD.last_name, OLD.company, OLD.line1, OLD.line2, OLD.city, OLD.state,
              OLD.postal_code, OLD.country, OLD.phone)
        IS DISTINCT FROM
          (NEW.first_name, NEW.last_name, NEW.company, NEW.line1, NEW.line2, NEW.city, NEW.state,
              NEW.postal_code, NEW.country, NEW.phone))
    EXECUTE FUNCTION raise_version();
-- upgrade: it only sets the new column.
CREATE TRIGGER payment_methods_version BEFORE UPDATE ON payment_methods FOR EACH ROW
    WHEN ((OLD.status, OLD.brand, OLD.last4, OLD.exp_month, OLD.exp_year, OLD.metadata, OLD.external_id)
        IS DISTINCT FROM
          (NEW.status, NEW.brand, NEW.last4, NEW.exp_month, NEW.exp_year, NEW.metadata, NEW.external_id))
    EXECUTE FUNCTION raise_version();
-- upgrade: it only sets the new column.
CREATE TRIGGER webhook_endpoints_version BEFORE UPDATE ON webhook_endpoints FOR EACH ROW
    WHEN ((OLD.url, OLD.enabled_events, OLD.status, OLD.disabled_reason, OLD.metadata)
        IS DISTINCT FROM
          (NEW.url, NEW.enabled_events, NEW.status, NEW.disabled_reason, NEW.metadata))
    EXECUTE FUNCTION raise_version();

-- A customer's cards and addresses show which of them is a default.
CREATE FUNCTION raise_versions_of_defaults() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.default_payment_method_id IS DISTINCT FROM NEW.default_payment_method_id THEN
        UPDATE payment_methods SET version = version + 1
        WHERE id IN (OLD.default_payment_method_id, NEW.default_payment_method_id);
    END IF;
    IF OLD.default_billing_address_id IS DISTINCT FROM NEW.default_billing_address_id THEN
        UPDATE addresses SET version = version + 1
        WHERE id IN (OLD.default_billing_address_id, NEW.default_billing_address_id);
    END IF;
    IF OLD.default_shipping_address_id IS DISTINCT FROM NEW.default_shipping_address_id THEN
        UPDATE addresses SET version = version + 1
        WHERE id IN (OLD.default_shipping_address_id, NEW.default_shipping_address_id);
    END IF;
    RETURN NULL;
END $$;
-- upgrade: it only sets the new column of rows whose customer is locked.
CREATE TRIGGER customers_defaults AFTER UPDATE OF default_payment_method_id, default_billing_address_id,
    default_shipping_address_id ON customers
    FOR EACH ROW EXECUTE FUNCTION raise_versions_of_defaults();
