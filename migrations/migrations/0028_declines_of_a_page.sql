-- no-transaction
-- How often cards were tried on a payment page and paid nothing, lately: a page is no place to find out which cards are good. A
-- saved card is charged by a collection, which is not the page's doing.
CREATE INDEX CONCURRENTLY IF NOT EXISTS payments_tried_on_page
    ON payments (account_id, coalesce(invoice_id, payment_link_id), created_at)
    WHERE coalesce(invoice_id, payment_link_id) IS NOT NULL AND payment_method_id IS NULL
      AND status IN ('declined', 'cancelled', 'refunded');
