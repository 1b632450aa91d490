-- A convenience fee that an account adds to its sales, and what of a transaction's amount was that fee.

ALTER TABLE gateway.accounts
    -- Basis points of the amount, and hundredths.
    ADD COLUMN fee_percent integer NOT NULL DEFAULT 0 CHECK (fee_percent BETWEEN 0 AND 10000),
    ADD COLUMN fee_fixed bigint NOT NULL DEFAULT 0 CHECK (fee_fixed BETWEEN 0 AND 99999999999999);

ALTER TABLE gateway.transactions
    -- Part of the amount: what is charged, voided and refunded is the whole.
    ADD COLUMN fee bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT transactions_fee_within_amount CHECK (fee >= 0 AND fee < amount),
    ADD CONSTRAINT transactions_only_sales_have_a_fee CHECK (fee = 0 OR kind IN ('sale', 'void'));
