-- What reconciliation compares: when a dispute was last written, by the database's clock, and the provider's reference
-- for giving the money back. Rows without that time are not looked up at the provider.
ALTER TABLE disputes ADD COLUMN written_at timestamptz, ADD COLUMN reinstatement_ref text;
-- upgrade: the previous version does not write the column, and its new rows are compared, too.
ALTER TABLE disputes ALTER COLUMN written_at SET DEFAULT clock_timestamp();

-- When the mock withdrew the money and gave it back, by the database's clock.
ALTER TABLE mock.disputes ADD COLUMN booked_at timestamptz, ADD COLUMN reinstated_at timestamptz;
-- upgrade: the previous version does not write the column, and the mock's statement must show what it withdraws.
ALTER TABLE mock.disputes ALTER COLUMN booked_at SET DEFAULT clock_timestamp();

-- upgrade: the constraint below accepts everything that the previous version writes.
ALTER TABLE book_differences DROP CONSTRAINT book_differences_entry_check;
ALTER TABLE book_differences ADD CONSTRAINT book_differences_entry CHECK (entry IN
    ('charge', 'capture', 'void', 'refund', 'credit', 'dispute_withdrawn', 'dispute_reinstated')) NOT VALID;
