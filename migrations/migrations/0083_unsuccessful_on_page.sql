-- no-transaction
-- As payments_tried_on_page, with the charges that the provider refused because of the card: a visitor can cause them as
-- often as declines. The former index is used by the previous version.
CREATE INDEX CONCURRENTLY IF NOT EXISTS payments_unsuccessful_on_page
    ON payments (account_id, coalesce(invoice_id, payment_link_id), created_at)
    WHERE coalesce(invoice_id, payment_link_id) IS NOT NULL AND payment_method_id IS NULL
      AND (status IN ('declined', 'cancelled', 'refunded') OR status = 'failed' AND failure_code = 'provider_refused');
