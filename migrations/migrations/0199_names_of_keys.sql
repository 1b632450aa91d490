ALTER TABLE mails VALIDATE CONSTRAINT mails_kind;
ALTER TABLE mails VALIDATE CONSTRAINT mails_link;

-- What the merchant calls a key.
ALTER TABLE api_keys ADD COLUMN name text;
ALTER TABLE api_keys ADD CONSTRAINT api_keys_name CHECK (char_length(name) BETWEEN 1 AND 64) NOT VALID;
