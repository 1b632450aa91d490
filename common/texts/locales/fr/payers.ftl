# Texts for payers. $payee is the name of the merchant.

language-name = Français

## Money and time

money = { $number } { $symbol }
money-negative = −{ $number } { $symbol }
money-by-code = { $number } { $code }
money-by-code-negative = −{ $number } { $code }
moment = { $date } à { $time } { $zone }

## Titles of the page in the browser

title-open = Payer { $amount } à { $payee }
title-under-way = Paiement en cours : { $amount } à { $payee }
title-not-now = Paiement indisponible pour le moment : { $amount } à { $payee }
title-paid = Payé : { $amount } à { $payee }
title-closed = { $amount } à { $payee }

## The state of the page

test-mode = Mode test : aucun argent réel n’est en jeu.
under-way = Un paiement est en cours de traitement. Merci de ne pas payer une seconde fois ; cette page s’actualise automatiquement.
returning = Un débit précédent est en cours de remboursement sur la carte utilisée. Vous pourrez payer ici dès que le remboursement aura été effectué.
too-many-declined = Trop de cartes ont été refusées ici ; le paiement est donc impossible pour le moment. Veuillez réessayer dans une heure ou demander à { $payee } un autre moyen de paiement.
paid-at = Paiement effectué le { $moment }. Merci.
paid-on = Payé le { $moment }. Si vous avez payé dans une autre fenêtre, il s’agit de ce paiement.
paid = Paiement effectué. Merci.
already-paid = Déjà payé. Votre carte n’a pas été débitée.
not-charged = Cette tentative n’a donné lieu à aucun débit.
voided = Cette facture a été annulée par { $payee }. Vous n’avez rien à payer.
cancelled = Ce lien de paiement a été annulé par { $payee }. Vous n’avez rien à payer.
expired = Ce lien de paiement a expiré. Veuillez en demander un nouveau à { $payee }.
badge-voided = Annulée
badge-cancelled = Annulé
badge-expired = Expiré
badge-overdue = En retard
confirm-with-bank = Votre banque vous demande de confirmer ce paiement. Aucun montant ne sera débité sans votre confirmation.
continue-with-bank = Continuer vers votre banque

## What is paid

tax-number = N° fiscal { $number }
invoice = Facture
billed-to = Facturé à
issued = Émise le
due = Échéance
description = Description
amount = Montant
all-lines = Toutes les lignes ({ $count })
subtotal = Sous-total
discount = Remise
tax = Taxe
total = Total
surcharge = Supplément
tip = Pourboire
total-to-pay = Total à payer
payable-until = Payable jusqu’au { $moment }.

## The form

pay-by-card = Payer par carte
script-needed = Pour que vous puissiez payer ici, JavaScript doit être activé dans votre navigateur : il transmet les données de votre carte directement au prestataire de paiement. Veuillez l’activer ou demander à { $payee } un autre moyen de paiement.
add-tip = Ajouter un pourboire de { $amount }
use-for-renewals = Utiliser cette carte pour les renouvellements et les autres factures impayées
pay-amount = Payer { $amount }
paying = Paiement en cours…
card-goes-to-processor = Les données de votre carte sont transmises directement au prestataire de paiement.
test-cards-only = Cartes de test uniquement : aucune donnée de carte n’est transmise.
how-to-pay = Comment payer
no-card-yet = Cette page n’accepte pas encore les paiements par carte. Pour payer, veuillez contacter { $payee }.
amount-not-payable = Ce montant ne peut pas être payé sur cette page. Pour payer, veuillez contacter { $payee }.
language = Langue

## Test cards

test-cards = Cartes de test
test-card-approved = est acceptée
test-card-declined = est refusée
test-card-low-balance = est refusée (solde trop bas)
test-card-lost = est refusée définitivement
test-card-stolen = est également refusée définitivement
test-card-expired = est expirée
test-card-code = est refusée (mauvais cryptogramme)
test-card-challenge = demande une confirmation
test-card-partial = est acceptée pour la moitié
test-card-others = Utilisez n’importe quelle date future, n’importe quel cryptogramme et n’importe quel nom.

## The receipt

receipt = Reçu
paid-to = Payé à
paid-for = Objet
date = Date
card = Carte
card-ending = { $brand } se terminant par { $last4 }
payment = Paiement
total-paid = Total payé
refunded-since = Remboursé depuis
questions = Des questions ?

## Why a submission failed

no-card-sent = Aucune donnée de carte n’a été transmise. Veuillez saisir à nouveau votre carte.
total-changed = Le montant a changé. Aucun montant n’a été débité ; veuillez vérifier le nouveau montant avant de payer.
currency-not-accepted = Le paiement par carte dans cette devise n’est pas possible ici. Aucun montant n’a été débité.
card-unusable = La carte n’a pas pu être utilisée. Aucun montant n’a été débité ; veuillez réessayer.
card-already-used = Les données de la carte ont déjà été utilisées pour un paiement. Aucun montant n’a été débité ; veuillez réessayer.
no-response = Aucune réponse n’a été reçue. Veuillez appuyer de nouveau sur le bouton : si le paiement a abouti, la page vous l’indiquera, et rien ne sera débité deux fois.

## Why a payment failed

try-again = Vous pouvez réessayer ou utiliser une autre carte.
other-amount-returned = La carte a été débitée d’un montant différent de celui affiché. Ce montant a été remboursé.
other-amount-returning = La carte a été débitée d’un montant différent de celui affiché. Ce montant est en cours de remboursement.
payment-failed = Le paiement n’a pas pu être effectué. Aucun montant n’a été débité.
part-returned = La banque émettrice de la carte n’a autorisé qu’une partie du montant. Cette partie a été remboursée.
part-returning = La banque émettrice de la carte n’a autorisé qu’une partie du montant. Cette partie est en cours de remboursement.
declined = La carte a été refusée par la banque émettrice. Aucun montant n’a été débité.
declined-funds = La carte a été refusée : provision insuffisante. Aucun montant n’a été débité.
declined-expired = La carte a été refusée : elle a expiré. Aucun montant n’a été débité.
declined-code = La carte a été refusée : le cryptogramme (CVC) est incorrect. Aucun montant n’a été débité.
declined-confirmation = La carte a été refusée : la banque émettrice exige une confirmation. Aucun montant n’a été débité.
declined-unconfirmed = La carte a été refusée : le paiement n’a pas été confirmé auprès de la banque émettrice. Aucun montant n’a été débité.
declined-limit = Le montant dépasse le plafond autorisé pour un paiement par carte. Aucun montant n’a été débité.
declined-busy = Aucun autre paiement par carte ne peut être accepté pour le moment. Aucun montant n’a été débité ; veuillez réessayer plus tard.
declined-network = Trop de paiements ont été effectués depuis votre réseau. Aucun montant n’a été débité ; veuillez réessayer plus tard.
declined-unsupported = La carte a été refusée : elle ne peut pas être utilisée ici. Aucun montant n’a été débité.
declined-saving = Si vous avez choisi d’utiliser cette carte pour les renouvellements, vous pouvez aussi réessayer sans cette option : sa banque pourra alors vous demander de confirmer le paiement.

## The page after a bank's confirmation

one-moment = Un instant, s’il vous plaît
bank-pending = Votre banque n’a pas encore confirmé le paiement. Cette page s’actualise automatiquement.
payment-declined = Le paiement a été refusé
payment-not-made = Le paiement n’a pas pu être effectué
close-page = Vous pouvez fermer cette page.
payment-undone-title = Paiement
payment-undone = Ce paiement a été annulé ou remboursé.
thank-you = Merci
bank-confirmed = Votre banque a confirmé le paiement.

## The simulated bank

bank-title = Confirmez votre paiement
bank-simulated = Ceci est une banque simulée.
bank-question = Payer avec la carte { $card } ?
bank-confirm = Confirmer
bank-refuse = Refuser
bank-time = Temps pour décider : { $seconds } s. Ensuite, le paiement ne sera pas effectué.
bank-time-over = Le délai est écoulé. Le paiement n’a pas été confirmé et aucun montant n’a été débité.
bank-go-back = Retour
bank-done = C’est terminé. Vous pouvez fermer cette page.
bank-choose = Veuillez choisir « Confirmer » ou « Refuser ».
bank-nothing = Il n’y a rien à confirmer ici.
bank-unavailable = Ce n’est pas possible pour le moment. Veuillez réessayer dans un instant.

## Errors

nothing-here = Rien à payer ici
address-invalid = Cette adresse n’est pas valide. Veuillez vérifier qu’elle est complète.
did-not-work = Cela n’a pas fonctionné
open-in-browser = Veuillez ouvrir la page dans un navigateur et payer à l’aide du bouton qui s’y trouve.
too-many-requests = Trop de demandes ont été envoyées. Celle-ci n’a donné lieu à aucun débit ; veuillez réessayer dans quelques secondes.
unreadable = La demande n’a pas pu être lue. Aucun montant n’a été débité ; veuillez revenir à la page et réessayer.
our-fault = Une erreur s’est produite de notre côté
attempt-charged-nothing = Cette tentative n’a donné lieu à aucun débit. Veuillez réessayer.

## The card field

card-details = Données de la carte
field-script-needed = JavaScript est nécessaire pour saisir une carte.
field-unknown = Ce champ de carte n’existe pas.
field-used = Ce champ de carte a déjà été utilisé ou a expiré. Veuillez recharger la page.
field-busy = Les demandes ont été trop nombreuses. Veuillez réessayer dans quelques secondes.
field-unavailable = Les cartes ne sont pas encore acceptées ici.
field-failed = Une erreur s’est produite de notre côté. Veuillez réessayer.
card-number = Numéro de carte
expiry-date = Expiration
expiry-placeholder = MM / AA
security-code = Cryptogramme
security-code-placeholder = CVC
security-code-hint = 3 chiffres au dos de la carte ; 4 au recto pour American Express
name-on-card = Nom sur la carte
country = Pays
postal-code = Code postal
enter-number = Veuillez saisir le numéro de carte.
number-invalid = Le numéro de carte n’est pas valide. Veuillez le vérifier.
enter-expiry = Veuillez saisir la date d’expiration.
expiry-malformed = La date d’expiration n’est pas valide. Saisissez le mois et l’année, par exemple 04 / 29.
expiry-invalid = La date d’expiration n’est pas valide. Veuillez la vérifier.
card-expired = La carte a expiré. Veuillez vérifier la date ou utiliser une autre carte.
enter-code = Veuillez saisir le cryptogramme (CVC) : 3 chiffres au dos de la carte.
enter-code-amex = Veuillez saisir le cryptogramme (CVC) : 4 chiffres au recto de la carte.
enter-name = Veuillez saisir le nom figurant sur la carte.
enter-postal-code = Veuillez saisir le code postal.
country-invalid = Le pays n’est pas valide. Veuillez le vérifier.
card-invalid = Les données de la carte ne sont pas valides. Veuillez les vérifier.
card-unreadable = Les données de la carte n’ont pas pu être lues. Veuillez réessayer.
processor-unreachable = Le prestataire de paiement n’a pas pu être joint. Aucun montant n’a été débité ; veuillez réessayer.

## The script in a merchant's page

service-unreachable = Le service de paiement n’a pas pu être joint. Veuillez réessayer.
service-busy = Le service de paiement est très sollicité. Veuillez réessayer dans un instant.
took-too-long = L’opération a pris trop de temps. Veuillez réessayer.
not-available-here = Le paiement par carte n’est pas disponible ici pour le moment.
processor-silent = Le prestataire de paiement n’a pas répondu. Veuillez réessayer.
field-closed = Le champ de carte a été fermé.

## E-mails

mail-invoice-subject = Facture { $number } de { $payee }
mail-invoice-intro = { $payee } vous a envoyé une facture de { $amount }.
mail-invoice-due = Veuillez la régler au plus tard le { $date }.
mail-invoice-collected = Votre carte enregistrée sera débitée le { $date }. Vous n’avez rien à faire.
mail-invoice-open = Voir et payer la facture
mail-receipt-subject = Reçu de { $payee } pour { $amount }
mail-receipt-intro = Vous avez payé { $amount } à { $payee } le { $moment }. Merci.
mail-receipt-open = Voir le reçu
mail-failed-subject = Votre paiement de { $amount } à { $payee } n’a pas été effectué
mail-failed-intro = { $payee } n’a pas pu débiter votre carte de { $amount }.
mail-failed-no-card = { $payee } n’a pas pu débiter { $amount } : aucune carte n’est enregistrée.
mail-failed-no-card-next = Vous pouvez régler la facture par carte sur sa page.
mail-failed-returning = Un débit antérieur est en cours de remboursement sur sa carte. Veuillez payer la facture une fois le remboursement effectué.
mail-failed-confirm = Votre banque vous demande de confirmer vous-même ce paiement. Vous pouvez le faire sur la page de la facture.
mail-failed-retry = Une nouvelle tentative de débit aura lieu le { $date }. Vous pouvez aussi payer dès maintenant, avec cette carte ou une autre.
mail-failed-last = Aucune nouvelle tentative n’est prévue. Veuillez payer la facture, avec cette carte ou une autre.
mail-failed-open = Payer la facture
mail-labelled = { $name } : { $value }
mail-invoice-pdf = Facture en PDF
mail-receipt-pdf = Reçu en PDF

## Receipts by e-mail

receipts-title = Reçus par e-mail
receipts-on = Vous recevez un reçu par e-mail lorsque vous effectuez un paiement à { $payee }. Les autres e-mails ne changent pas si vous ne voulez plus de reçus.
receipts-off = Vous ne recevez plus de reçus de { $payee } par e-mail. Le reçu d’une facture reste disponible sur la page de celle-ci.
receipts-stop = Ne plus recevoir de reçus par e-mail
receipts-resume = Recevoir à nouveau des reçus par e-mail

## Invitations to the portal, by e-mail

mail-invitation-subject = Invitation de { $payee }
mail-invitation-intro = { $payee } vous invite avec le rôle suivant : { $role }. Veuillez choisir un mot de passe sur cette page :
mail-invitation-once = Le lien est utilisable une seule fois et valable { $days } jours. Si vous ne connaissez pas { $payee }, vous pouvez ignorer cet e-mail.
role-owner = propriétaire
role-developer = développeur
role-support = support
role-viewer = lecteur
