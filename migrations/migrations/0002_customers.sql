-- Customers and their saved cards. The default card is one column of the customer: two defaults cannot be written.

CREATE TYPE payment_method_status AS ENUM ('processing', 'active', 'failed');

CREATE TABLE customers (
    id                        uuid PRIMARY KEY,
    account_id                uuid NOT NULL REFERENCES accounts (id),
    email                     text NOT NULL,
    name                      text NOT NULL,
    phone                     text,
    external_id               text,
    custom_fields             jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(custom_fields) = 'array'),
    default_payment_method_id uuid,
    created_at                timestamptz NOT NULL,
    CONSTRAINT customers_of_account UNIQUE (account_id, id)
);
CREATE UNIQUE INDEX customers_external_id ON customers (account_id, external_id) WHERE external_id IS NOT NULL;

CREATE TABLE payment_methods (
    id                  uuid PRIMARY KEY,
    account_id          uuid NOT NULL,
    customer_id         uuid NOT NULL,
    provider_account_id uuid NOT NULL,
    status              payment_method_status NOT NULL,
    -- The provider's name for the stored card; known once it is stored.
    provider_ref        text,
    brand               text,
    last4               text,
    exp_month           smallint,
    exp_year            smallint,
    created_at          timestamptz NOT NULL,
    CONSTRAINT payment_methods_of_account UNIQUE (account_id, id),
    -- So that a customer's default can only be a card of that customer.
    CONSTRAINT payment_methods_of_customer UNIQUE (account_id, customer_id, id),
    CONSTRAINT payment_methods_customer FOREIGN KEY (account_id, customer_id) REFERENCES customers (account_id, id),
    CONSTRAINT payment_methods_provider_account FOREIGN KEY (account_id, provider_account_id)
        REFERENCES provider_accounts (account_id, id),
    CONSTRAINT payment_methods_active_is_whole CHECK (status <> 'active' OR
        (provider_ref IS NOT NULL AND brand IS NOT NULL AND last4 IS NOT NULL AND exp_month IS NOT NULL AND exp_year IS NOT NULL))
);

ALTER TABLE customers ADD CONSTRAINT customers_default_payment_method
    FOREIGN KEY (account_id, id, default_payment_method_id) REFERENCES payment_methods (account_id, customer_id, id);
