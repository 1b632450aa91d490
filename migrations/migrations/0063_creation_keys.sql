-- Idempotency keys of requests that create an object, other than a payment, which has its own (idempotency_keys): one key of an
-- operation, one object, one answer. Kept as long as the object.
CREATE TABLE creation_keys (
    id                    uuid PRIMARY KEY,
    account_id            uuid NOT NULL REFERENCES accounts (id),
    -- The scope of a key: customers.create and the like.
    operation             text NOT NULL,
    key                   text NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
    -- SHA-256 of the body as parsed JSON.
    request_hash          bytea NOT NULL CHECK (octet_length(request_hash) = 32),
    -- What was created: one of these.
    customer_id           uuid,
    address_id            uuid,
    payment_method_id     uuid,
    plan_id               uuid,
    subscription_id       uuid,
    invoice_id            uuid,
    recurring_invoice_id  uuid,
    payment_link_id       uuid,
    webhook_endpoint_id   uuid,
    -- The first answer, byte for byte. Of a card it is written with the outcome. One that holds a secret is encrypted in the context
    -- of the id.
    status                smallint,
    answer                text,
    sealed_answer         bytea,
    created_at            timestamptz NOT NULL,
    -- The key is written before anything else, so that a second request waits here and nowhere else.
    CONSTRAINT creation_keys_once UNIQUE (account_id, operation, key),
    CONSTRAINT creation_keys_one_object CHECK (num_nonnulls(customer_id, address_id, payment_method_id, plan_id, subscription_id, invoice_id, recurring_invoice_id, payment_link_id, webhook_endpoint_id) <= 1),
    CONSTRAINT creation_keys_answer CHECK (
        num_nonnulls(answer, sealed_answer) <= 1 AND (status IS NOT NULL) = (num_nonnulls(answer, sealed_answer) = 1)),
    CONSTRAINT creation_keys_customer FOREIGN KEY (account_id, customer_id) REFERENCES customers (account_id, id)
        DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT creation_keys_payment_method FOREIGN KEY (account_id, payment_method_id) REFERENCES payment_methods (account_id, id)
        DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT creation_keys_plan FOREIGN KEY (account_id, plan_id) REFERENCES plans (account_id, id)
        DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT creation_keys_subscription FOREIGN KEY (account_id, subscription_id) REFERENCES subscriptions (account_id, id)
        DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT creation_keys_invoice FOREIGN KEY (account_id, invoice_id) REFERENCES invoices (account_id, id)
        DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT creation_keys_recurring_invoice FOREIGN KEY (account_id, recurring_invoice_id) REFERENCES recurring_invoices (account_id, id)
        DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT creation_keys_payment_link FOREIGN KEY (account_id, payment_link_id) REFERENCES payment_links (account_id, id)
        DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT creation_keys_webhook_endpoint FOREIGN KEY (account_id, webhook_endpoint_id) REFERENCES webhook_endpoints (account_id, id)
        DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT creation_keys_address FOREIGN KEY (account_id, address_id) REFERENCES addresses (account_id, id)
        DEFERRABLE INITIALLY DEFERRED
);
-- The outcome of saving a card writes its answer.
CREATE UNIQUE INDEX creation_keys_of_payment_method ON creation_keys (account_id, payment_method_id)
    WHERE payment_method_id IS NOT NULL;
-- An endpoint that is deleted takes its key along.
CREATE UNIQUE INDEX creation_keys_of_webhook_endpoint ON creation_keys (account_id, webhook_endpoint_id)
    WHERE webhook_endpoint_id IS NOT NULL;
