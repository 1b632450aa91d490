# Texts for payers. $payee is the name of the merchant.

language-name = Deutsch

## Money and time

money = { $number } { $symbol }
money-negative = −{ $number } { $symbol }
money-by-code = { $number } { $code }
money-by-code-negative = −{ $number } { $code }
moment = { $date }, { $time } Uhr { $zone }

## Titles of the page in the browser

title-open = { $amount } an { $payee } bezahlen
title-under-way = Zahlung läuft: { $amount } an { $payee }
title-not-now = Zurzeit keine Zahlung möglich: { $amount } an { $payee }
title-paid = Bezahlt: { $amount } an { $payee }
title-closed = { $amount } an { $payee }

## The state of the page

test-mode = Testmodus: Es fließt kein Geld.
under-way = Eine Zahlung wird gerade verarbeitet. Bitte bezahlen Sie nicht noch einmal. Diese Seite wird automatisch aktualisiert.
returning = Eine frühere Abbuchung wird gerade auf die verwendete Karte zurückerstattet. Sobald sie erstattet ist, können Sie hier bezahlen.
too-many-declined = Hier wurden zu viele Karten abgelehnt. Eine Zahlung ist deshalb zurzeit nicht möglich. Bitte versuchen Sie es in einer Stunde erneut oder fragen Sie { $payee } nach einer anderen Zahlungsmöglichkeit.
paid-at = Bezahlt am { $moment }. Vielen Dank.
paid-on = Bezahlt am { $moment }. Falls Sie in einem anderen Fenster bezahlt haben, handelt es sich um diese Zahlung.
paid = Bezahlt. Vielen Dank.
already-paid = Bereits bezahlt. Ihre Karte wurde nicht belastet.
not-charged = Bei diesem Versuch wurde nichts abgebucht.
voided = Diese Rechnung wurde von { $payee } storniert. Sie müssen nichts bezahlen.
cancelled = Dieser Zahlungslink wurde von { $payee } zurückgezogen. Sie müssen nichts bezahlen.
expired = Dieser Zahlungslink ist abgelaufen. Bitte fragen Sie { $payee } nach einem neuen.
badge-voided = Storniert
badge-cancelled = Zurückgezogen
badge-expired = Abgelaufen
badge-overdue = Überfällig
confirm-with-bank = Ihre Bank bittet Sie, diese Zahlung zu bestätigen. Bis dahin wird nichts abgebucht.
continue-with-bank = Weiter zu Ihrer Bank

## What is paid

tax-number = Steuernr. { $number }
invoice = Rechnung
billed-to = Rechnung an
issued = Ausgestellt
due = Fällig
description = Beschreibung
amount = Betrag
all-lines = Alle { $count } Positionen
subtotal = Zwischensumme
discount = Rabatt
tax = Steuer
total = Gesamtbetrag
surcharge = Aufschlag
tip = Trinkgeld
total-to-pay = Zu zahlen
payable-until = Zahlbar bis zum { $moment }.

## The form

pay-by-card = Mit Karte bezahlen
script-needed = Damit Sie hier bezahlen können, muss in Ihrem Browser JavaScript aktiviert sein. Es übermittelt Ihre Kartendaten direkt an den Zahlungsdienstleister. Bitte aktivieren Sie es oder fragen Sie { $payee } nach einer anderen Zahlungsmöglichkeit.
add-tip = { $amount } Trinkgeld geben
use-for-renewals = Diese Karte für Verlängerungen und weitere offene Rechnungen verwenden
pay-amount = { $amount } bezahlen
paying = Zahlung läuft …
card-goes-to-processor = Ihre Kartendaten gehen direkt an den Zahlungsdienstleister.
test-cards-only = Nur für Testkarten: Es werden keine Kartendaten übermittelt.
how-to-pay = So können Sie bezahlen
no-card-yet = Auf dieser Seite können Sie noch nicht mit Karte bezahlen. Bitte wenden Sie sich zum Bezahlen an { $payee }.
amount-not-payable = Dieser Betrag kann auf dieser Seite nicht bezahlt werden. Bitte wenden Sie sich zum Bezahlen an { $payee }.
language = Sprache

## Test cards

test-cards = Testkarten
test-card-approved = wird angenommen
test-card-declined = wird abgelehnt
test-card-low-balance = wird abgelehnt (zu wenig Guthaben)
test-card-lost = wird endgültig abgelehnt
test-card-stolen = wird ebenfalls endgültig abgelehnt
test-card-expired = ist abgelaufen
test-card-code = wird abgelehnt (falsche Prüfnummer)
test-card-challenge = verlangt eine Bestätigung
test-card-partial = wird zur Hälfte genehmigt
test-card-others = Verwenden Sie ein beliebiges Datum in der Zukunft, eine beliebige Prüfnummer und einen beliebigen Namen.

## The receipt

receipt = Zahlungsbeleg
paid-to = Bezahlt an
paid-for = Für
date = Datum
card = Karte
card-ending = { $brand } mit den Endziffern { $last4 }
payment = Zahlung
total-paid = Gezahlter Betrag
refunded-since = Seitdem erstattet
questions = Haben Sie Fragen?

## Why a submission failed

no-card-sent = Es wurden keine Kartendaten übermittelt. Bitte geben Sie sie erneut ein.
total-changed = Der Betrag hat sich geändert. Es wurde nichts abgebucht. Bitte prüfen Sie den neuen Betrag, bevor Sie bezahlen.
currency-not-accepted = Kartenzahlungen in dieser Währung sind hier nicht möglich. Es wurde nichts abgebucht.
card-unusable = Die Karte konnte nicht verwendet werden. Es wurde nichts abgebucht. Bitte versuchen Sie es erneut.
card-already-used = Die Kartendaten wurden bereits für eine Zahlung verwendet. Es wurde nichts abgebucht. Bitte versuchen Sie es erneut.
no-response = Es kam keine Antwort. Bitte drücken Sie noch einmal auf die Schaltfläche: Falls die Zahlung erfolgreich war, wird Ihnen das angezeigt, und es wird nichts doppelt abgebucht.

## Why a payment failed

try-again = Sie können es erneut versuchen oder eine andere Karte verwenden.
other-amount-returned = Die Karte wurde mit einem anderen als dem angezeigten Betrag belastet. Dieser Betrag wurde zurückerstattet.
other-amount-returning = Die Karte wurde mit einem anderen als dem angezeigten Betrag belastet. Dieser Betrag wird gerade zurückerstattet.
payment-failed = Die Zahlung konnte nicht ausgeführt werden. Es wurde nichts abgebucht.
part-returned = Die kartenausgebende Bank hat nur einen Teil des Betrags genehmigt. Dieser Teil wurde zurückerstattet.
part-returning = Die kartenausgebende Bank hat nur einen Teil des Betrags genehmigt. Dieser Teil wird gerade zurückerstattet.
declined = Die Karte wurde von der kartenausgebenden Bank abgelehnt. Es wurde nichts abgebucht.
declined-funds = Die Karte wurde mangels Deckung abgelehnt. Es wurde nichts abgebucht.
declined-expired = Die Karte wurde abgelehnt, weil sie abgelaufen ist. Es wurde nichts abgebucht.
declined-code = Die Karte wurde abgelehnt, weil die Prüfnummer (CVC) falsch ist. Es wurde nichts abgebucht.
declined-confirmation = Die Karte wurde abgelehnt, weil die kartenausgebende Bank eine Bestätigung verlangt. Es wurde nichts abgebucht.
declined-unconfirmed = Die Karte wurde abgelehnt, weil die Zahlung bei der kartenausgebenden Bank nicht bestätigt wurde. Es wurde nichts abgebucht.
declined-limit = Der Betrag übersteigt das Limit für eine Kartenzahlung. Es wurde nichts abgebucht.
declined-busy = Zurzeit können keine weiteren Kartenzahlungen angenommen werden. Es wurde nichts abgebucht. Bitte versuchen Sie es später erneut.
declined-network = Aus Ihrem Netzwerk kamen zu viele Zahlungen. Es wurde nichts abgebucht. Bitte versuchen Sie es später erneut.
declined-unsupported = Die Karte wurde abgelehnt, weil sie hier nicht verwendet werden kann. Es wurde nichts abgebucht.
declined-saving = Falls Sie die Karte für Verlängerungen verwenden wollten, können Sie es auch ohne diese Auswahl versuchen: Dann kann die Bank Sie bitten, die Zahlung zu bestätigen.

## The page after a bank's confirmation

one-moment = Einen Moment, bitte
bank-pending = Ihre Bank hat die Zahlung noch nicht bestätigt. Diese Seite wird automatisch aktualisiert.
payment-declined = Die Zahlung wurde abgelehnt
payment-not-made = Die Zahlung konnte nicht ausgeführt werden
close-page = Sie können diese Seite schließen.
payment-undone-title = Zahlung
payment-undone = Diese Zahlung wurde storniert oder erstattet.
thank-you = Vielen Dank
bank-confirmed = Ihre Bank hat die Zahlung bestätigt.

## The simulated bank

bank-title = Zahlung bestätigen
bank-simulated = Dies ist eine simulierte Bank.
bank-question = Mit der Karte { $card } bezahlen?
bank-confirm = Bestätigen
bank-refuse = Ablehnen
bank-time = Zeit für die Entscheidung: { $seconds } s. Danach wird die Zahlung nicht ausgeführt.
bank-time-over = Die Zeit ist abgelaufen. Die Zahlung wurde nicht bestätigt, und es wurde nichts abgebucht.
bank-go-back = Zurück
bank-done = Fertig. Sie können diese Seite schließen.
bank-choose = Bitte wählen Sie „Bestätigen“ oder „Ablehnen“.
bank-nothing = Hier gibt es nichts zu bestätigen.
bank-unavailable = Das ist zurzeit nicht möglich. Bitte versuchen Sie es gleich noch einmal.

## Errors

nothing-here = Hier gibt es nichts zu bezahlen
address-invalid = Diese Adresse ist ungültig. Bitte prüfen Sie, ob die Adresse vollständig ist.
did-not-work = Das hat nicht funktioniert
open-in-browser = Bitte öffnen Sie die Seite in einem Browser und bezahlen Sie dort über die Schaltfläche.
too-many-requests = Es gab zu viele Anfragen. Durch diese Anfrage wurde nichts abgebucht. Bitte versuchen Sie es in einigen Sekunden erneut.
unreadable = Die Anfrage konnte nicht gelesen werden. Es wurde nichts abgebucht. Bitte kehren Sie zur Seite zurück und versuchen Sie es erneut.
our-fault = Bei uns ist ein Fehler aufgetreten
attempt-charged-nothing = Bei diesem Versuch wurde nichts abgebucht. Bitte versuchen Sie es erneut.

## The card field

card-details = Kartendaten
field-script-needed = Für die Eingabe der Kartendaten ist JavaScript erforderlich.
field-unknown = Dieses Kartenfeld gibt es nicht.
field-used = Dieses Kartenfeld wurde bereits verwendet oder ist abgelaufen. Bitte laden Sie die Seite neu.
field-busy = Es gab zu viele Anfragen. Bitte versuchen Sie es in einigen Sekunden erneut.
field-unavailable = Kartenzahlungen sind hier noch nicht möglich.
field-failed = Bei uns ist ein Fehler aufgetreten. Bitte versuchen Sie es erneut.
card-number = Kartennummer
expiry-date = Ablaufdatum
expiry-placeholder = MM / JJ
security-code = Prüfnummer
security-code-placeholder = CVC
security-code-hint = 3 Ziffern auf der Rückseite der Karte; bei American Express 4 Ziffern auf der Vorderseite
name-on-card = Name auf der Karte
country = Land
postal-code = Postleitzahl
enter-number = Bitte geben Sie die Kartennummer ein.
number-invalid = Die Kartennummer ist ungültig. Bitte prüfen Sie sie.
enter-expiry = Bitte geben Sie das Ablaufdatum ein.
expiry-malformed = Das Ablaufdatum ist ungültig. Geben Sie Monat und Jahr ein, zum Beispiel 04 / 29.
expiry-invalid = Das Ablaufdatum ist ungültig. Bitte prüfen Sie es.
card-expired = Die Karte ist abgelaufen. Bitte prüfen Sie das Datum oder verwenden Sie eine andere Karte.
enter-code = Bitte geben Sie die Prüfnummer (CVC) ein: 3 Ziffern auf der Rückseite der Karte.
enter-code-amex = Bitte geben Sie die Prüfnummer (CVC) ein: 4 Ziffern auf der Vorderseite der Karte.
enter-name = Bitte geben Sie den Namen auf der Karte ein.
enter-postal-code = Bitte geben Sie die Postleitzahl ein.
country-invalid = Das Land ist ungültig. Bitte prüfen Sie es.
card-invalid = Die Kartendaten sind ungültig. Bitte prüfen Sie sie.
card-unreadable = Die Kartendaten konnten nicht gelesen werden. Bitte versuchen Sie es erneut.
processor-unreachable = Der Zahlungsdienstleister war nicht erreichbar. Es wurde nichts abgebucht. Bitte versuchen Sie es erneut.

## The script in a merchant's page

service-unreachable = Der Zahlungsdienst war nicht erreichbar. Bitte versuchen Sie es erneut.
service-busy = Der Zahlungsdienst ist ausgelastet. Bitte versuchen Sie es gleich noch einmal.
took-too-long = Das hat zu lange gedauert. Bitte versuchen Sie es erneut.
not-available-here = Kartenzahlung ist hier zurzeit nicht möglich.
processor-silent = Der Zahlungsdienstleister hat nicht geantwortet. Bitte versuchen Sie es erneut.
field-closed = Das Kartenfeld wurde geschlossen.

## E-mails

mail-invoice-subject = Rechnung { $number } von { $payee }
mail-invoice-intro = { $payee } hat Ihnen eine Rechnung über { $amount } gesendet.
mail-invoice-due = Bitte zahlen Sie bis zum { $date }.
mail-invoice-collected = Ihre gespeicherte Karte wird am { $date } belastet. Sie müssen nichts weiter tun.
mail-invoice-open = Rechnung ansehen und bezahlen
mail-receipt-subject = Zahlungsbeleg über { $amount } von { $payee }
mail-receipt-intro = Sie haben { $amount } an { $payee } gezahlt ({ $moment }). Vielen Dank.
mail-receipt-open = Zahlungsbeleg ansehen
mail-failed-subject = Ihre Zahlung von { $amount } an { $payee } konnte nicht ausgeführt werden
mail-failed-intro = { $payee } konnte Ihre Karte nicht mit { $amount } belasten.
mail-failed-no-card = { $payee } konnte { $amount } nicht abbuchen: Es ist keine Karte hinterlegt.
mail-failed-no-card-next = Sie können die Rechnung auf ihrer Seite mit Karte bezahlen.
mail-failed-returning = Eine frühere Abbuchung wird gerade auf die Karte zurückerstattet. Bitte bezahlen Sie die Rechnung, sobald das geschehen ist.
mail-failed-confirm = Ihre Bank verlangt, dass Sie diese Zahlung selbst bestätigen. Das können Sie auf der Seite der Rechnung tun.
mail-failed-retry = Am { $date } wird erneut versucht, den Betrag abzubuchen. Sie können auch jetzt bezahlen, mit dieser oder einer anderen Karte.
mail-failed-last = Ein weiterer Versuch ist nicht vorgesehen. Bitte bezahlen Sie die Rechnung, mit dieser oder einer anderen Karte.
mail-failed-open = Rechnung bezahlen
mail-labelled = { $name }: { $value }
mail-invoice-pdf = Rechnung als PDF
mail-receipt-pdf = Zahlungsbeleg als PDF

## Receipts by e-mail

receipts-title = Zahlungsbelege per E-Mail
receipts-on = Sie erhalten einen Zahlungsbeleg per E-Mail, wenn Sie an { $payee } zahlen. Andere E-Mails ändern sich nicht, wenn Sie Zahlungsbelege abbestellen.
receipts-off = Sie erhalten von { $payee } keine Zahlungsbelege per E-Mail mehr. Der Zahlungsbeleg einer Rechnung bleibt auf ihrer Seite verfügbar.
receipts-stop = Zahlungsbelege per E-Mail abbestellen
receipts-resume = Zahlungsbelege künftig wieder per E-Mail erhalten

## Invitations to the portal, by e-mail

mail-invitation-subject = Einladung von { $payee }
mail-invitation-intro = { $payee } lädt Sie ein. Ihre Rolle: { $role }. Bitte wählen Sie auf dieser Seite ein Passwort:
mail-invitation-once = Der Link funktioniert einmal und gilt { $days } Tage. Wenn Sie { $payee } nicht kennen, können Sie diese E-Mail ignorieren.
role-owner = Inhaber
role-developer = Entwickler
role-support = Support
role-viewer = Betrachter
