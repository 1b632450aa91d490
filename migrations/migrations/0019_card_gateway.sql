-- The card gateway as a provider, and challenges of 3-D Secure.

ALTER TABLE provider_accounts
    -- By what the provider knows us: JSON under AES-256-GCM, bound to this row's id. NULL at the mock, which asks for none.
    ADD COLUMN credentials bytea,
    -- By what the provider knows us in a browser. It is public.
    ADD COLUMN field_key text,
    -- What it is paid in, of what its provider can take at all; NULL is all of that.
    ADD COLUMN currencies text[] CHECK (currencies <> '{}');

-- Two accounts that are one at the gateway would find each other's charges there.
CREATE UNIQUE INDEX provider_accounts_field_key ON provider_accounts (field_key) WHERE field_key IS NOT NULL;

-- Whose address a provider is given that wants one, of a payer who has none.
ALTER TABLE accounts ADD COLUMN email text CHECK (email <> '');

-- Where a cardholder who is asked goes on: our own address ends with the token, the provider's is behind it.
ALTER TABLE payments
    ADD COLUMN action_token  text,
    ADD COLUMN challenge_url text,
    ADD CONSTRAINT payments_action_is_whole CHECK ((action_token IS NULL) = (challenge_url IS NULL)),
    ADD CONSTRAINT payments_action_leads_somewhere CHECK (status <> 'requires_action' OR action_token IS NOT NULL);

-- A charge with a token may be answered with a challenge; without one nobody is there to be asked.
ALTER TABLE operations
    ADD COLUMN action_token text,
    ADD CONSTRAINT operations_only_charges_are_challenged CHECK (action_token IS NULL OR kind IN ('sale', 'authorize'));
CREATE UNIQUE INDEX operations_action ON operations (action_token) WHERE action_token IS NOT NULL;
-- What follows a charge carries no reference of its own at some providers, and is told apart by being alone.
CREATE UNIQUE INDEX operations_one_in_flight ON operations (account_id, payment_id)
    WHERE kind IN ('capture', 'void', 'refund') AND state IN ('sending', 'unknown');

-- A provider's token pays once, whichever way it comes to us.
ALTER TABLE payment_tokens
    ADD COLUMN upstream_hash bytea CHECK (octet_length(upstream_hash) = 32);
CREATE UNIQUE INDEX payment_tokens_upstream ON payment_tokens (provider_account_id, upstream_hash)
    WHERE upstream_hash IS NOT NULL;
