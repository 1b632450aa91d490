-- How payers see the merchant, beside its name: lines of its address, its number for tax, and the colour of buttons.
ALTER TABLE accounts ADD COLUMN address text, ADD COLUMN tax_number text, ADD COLUMN color text;
ALTER TABLE accounts ADD CONSTRAINT accounts_color CHECK (color ~ '^#[0-9a-f]{6}$') NOT VALID;
