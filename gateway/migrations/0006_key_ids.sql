-- Every ciphertext begins with a mark and the id of the key that made it: five bytes. One from before the ids begins with random
-- bytes instead. What is not under the current key is found along these indexes.

CREATE INDEX accounts_by_key ON gateway.accounts (substring(secret_key_sealed FROM 1 FOR 5));
CREATE INDEX cards_by_key ON gateway.cards (substring(number FROM 1 FOR 5));
CREATE INDEX field_tokens_number_by_key ON gateway.field_tokens (substring(number FROM 1 FOR 5)) WHERE number IS NOT NULL;
CREATE INDEX field_tokens_code_by_key ON gateway.field_tokens (substring(security_code FROM 1 FOR 5))
    WHERE security_code IS NOT NULL;
CREATE INDEX field_tokens_stored_as_by_key ON gateway.field_tokens (substring(stored_as FROM 1 FOR 5))
    WHERE stored_as IS NOT NULL;
CREATE INDEX proxy_numbers_by_key ON gateway.proxy_numbers (substring(number FROM 1 FOR 5));
CREATE INDEX transactions_number_by_key ON gateway.transactions (substring(number FROM 1 FOR 5)) WHERE number IS NOT NULL;
