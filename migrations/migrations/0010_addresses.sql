-- Addresses of customers. Each default is one column of the customer, as the default card is: two cannot be written.

CREATE TABLE addresses (
    id          uuid PRIMARY KEY,
    account_id  uuid NOT NULL,
    customer_id uuid NOT NULL,
    first_name  text,
    last_name   text,
    company     text,
    line1       text NOT NULL,
    line2       text,
    city        text,
    state       text,
    postal_code text,
    country     text NOT NULL CHECK (country ~ '^[A-Z]{2}$'),
    phone       text,
    created_at  timestamptz NOT NULL,
    -- So that a customer's default can only be an address of that customer. The list is read along it, too.
    CONSTRAINT addresses_of_customer UNIQUE (account_id, customer_id, id),
    CONSTRAINT addresses_customer FOREIGN KEY (account_id, customer_id) REFERENCES customers (account_id, id)
);

ALTER TABLE customers
    ADD COLUMN default_billing_address_id uuid,
    ADD COLUMN default_shipping_address_id uuid,
    ADD CONSTRAINT customers_default_billing_address
        FOREIGN KEY (account_id, id, default_billing_address_id) REFERENCES addresses (account_id, customer_id, id),
    ADD CONSTRAINT customers_default_shipping_address
        FOREIGN KEY (account_id, id, default_shipping_address_id) REFERENCES addresses (account_id, customer_id, id);
