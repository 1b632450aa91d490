-- The logo of an account, as payers see it.
CREATE TABLE logos (
    account_id uuid PRIMARY KEY REFERENCES accounts,
    -- Decoded from the file that was uploaded, and encoded again.
    png bytea NOT NULL CHECK (octet_length(png) <= 524288),
    -- Of the bytes; in the URL.
    sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
    width integer NOT NULL CHECK (width BETWEEN 1 AND 600),
    height integer NOT NULL CHECK (height BETWEEN 1 AND 200),
    created_at timestamptz NOT NULL
);
