-- The logo of an account, as payers see it.
CREATE TABLE logos (
    -- In the URL, which payers know and which must not name the account. Each upload has another one.
    id uuid PRIMARY KEY,
    account_id uuid NOT NULL UNIQUE REFERENCES accounts,
    -- Decoded from the file that was uploaded, and encoded again.
    png bytea NOT NULL CHECK (octet_length(png) <= 524288),
    width integer NOT NULL CHECK (width BETWEEN 1 AND 600),
    height integer NOT NULL CHECK (height BETWEEN 1 AND 200),
    created_at timestamptz NOT NULL
);
