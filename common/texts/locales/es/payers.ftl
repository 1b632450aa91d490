# Texts for payers. $payee is the name of the merchant.

language-name = Español

## Money and time

money = { $number } { $symbol }
money-negative = −{ $number } { $symbol }
money-by-code = { $number } { $code }
money-by-code-negative = −{ $number } { $code }
moment = { $date } a las { $time } { $zone }

## Titles of the page in the browser

title-open = Pagar { $amount } a { $payee }
title-under-way = Pago en curso: { $amount } a { $payee }
title-not-now = Pago no disponible por ahora: { $amount } a { $payee }
title-paid = Pagado: { $amount } a { $payee }
title-closed = { $amount } a { $payee }

## The state of the page

test-mode = Modo de prueba: no se mueve dinero real.
under-way = Se está procesando un pago. No vuelva a pagar; esta página se actualiza automáticamente.
returning = Se está devolviendo un cobro anterior a la tarjeta utilizada. Podrá pagar aquí en cuanto se haya devuelto.
too-many-declined = Aquí se han rechazado demasiadas tarjetas, por lo que no es posible pagar en este momento. Inténtelo de nuevo dentro de una hora o consulte con { $payee } otra forma de pago.
paid-at = Pagado el { $moment }. Gracias.
paid-on = Pagado el { $moment }. Si usted ha pagado en otra ventana, se trata de ese pago.
paid = Pagado. Gracias.
already-paid = Ya está pagado. No se ha hecho ningún cargo en su tarjeta.
not-charged = En este intento no se ha cobrado nada.
voided = { $payee } ha anulado esta factura. No hay nada que pagar.
cancelled = { $payee } ha cancelado este enlace de pago. No hay nada que pagar.
expired = Este enlace de pago ha caducado. Solicite uno nuevo a { $payee }.
badge-voided = Anulada
badge-cancelled = Cancelado
badge-expired = Caducado
badge-overdue = Vencida
confirm-with-bank = Su banco le pide que confirme este pago. No se cobrará nada hasta que lo confirme.
continue-with-bank = Continuar con su banco

## What is paid

tax-number = NIF { $number }
invoice = Factura
billed-to = Facturado a
issued = Emisión
due = Vencimiento
description = Descripción
amount = Importe
all-lines = Todas las líneas ({ $count })
subtotal = Subtotal
discount = Descuento
tax = Impuesto
total = Total
surcharge = Recargo
tip = Propina
total-to-pay = Total a pagar
payable-until = Se puede pagar hasta el { $moment }.

## The form

pay-by-card = Pagar con tarjeta
script-needed = Para pagar aquí es necesario que su navegador tenga activado JavaScript, que envía los datos de su tarjeta directamente al procesador de pagos. Actívelo o consulte con { $payee } otra forma de pago.
add-tip = Añadir una propina de { $amount }
use-for-renewals = Usar esta tarjeta para las renovaciones y otras facturas pendientes
pay-amount = Pagar { $amount }
paying = Procesando…
card-goes-to-processor = Los datos de su tarjeta se envían directamente al procesador de pagos.
test-cards-only = Solo para tarjetas de prueba: no se envían datos de tarjetas.
how-to-pay = Cómo pagar
no-card-yet = Esta página todavía no admite pagos con tarjeta. Para pagar, póngase en contacto con { $payee }.
amount-not-payable = Este importe no se puede pagar en esta página. Para pagar, póngase en contacto con { $payee }.
language = Idioma

## Test cards

test-cards = Tarjetas de prueba
test-card-approved = se aprueba
test-card-declined = se rechaza
test-card-low-balance = se rechaza (saldo bajo)
test-card-lost = se rechaza definitivamente
test-card-stolen = también se rechaza definitivamente
test-card-expired = está vencida
test-card-code = se rechaza (código de seguridad erróneo)
test-card-challenge = pide confirmación
test-card-partial = se aprueba por la mitad
test-card-others = Use cualquier fecha futura, cualquier código de seguridad y cualquier nombre.

## The receipt

receipt = Recibo
paid-to = Pagado a
paid-for = Concepto
date = Fecha
card = Tarjeta
card-ending = { $brand } terminada en { $last4 }
payment = Pago
total-paid = Total pagado
refunded-since = Reembolsado después
questions = ¿Tiene preguntas?

## Why a submission failed

no-card-sent = No se han enviado los datos de la tarjeta. Introdúzcalos de nuevo.
total-changed = El importe ha cambiado. No se ha cobrado nada; revise el nuevo importe antes de pagar.
currency-not-accepted = Aquí no se admiten pagos con tarjeta en esta moneda. No se ha cobrado nada.
card-unusable = No se ha podido usar la tarjeta. No se ha cobrado nada; inténtelo de nuevo.
card-already-used = Los datos de la tarjeta ya se han usado para un pago. No se ha cobrado nada; inténtelo de nuevo.
no-response = No se ha recibido respuesta. Pulse de nuevo el botón: si el pago se ha realizado, la página se lo indicará y no se cobrará nada dos veces.

## Why a payment failed

try-again = Puede intentarlo de nuevo o usar otra tarjeta.
other-amount-returned = Se ha cobrado en la tarjeta un importe distinto del indicado. Ese importe se ha devuelto.
other-amount-returning = Se ha cobrado en la tarjeta un importe distinto del indicado. Ese importe se está devolviendo.
payment-failed = No se ha podido realizar el pago. No se ha cobrado nada.
part-returned = El banco emisor de la tarjeta solo ha aprobado una parte del importe. Esa parte se ha devuelto.
part-returning = El banco emisor de la tarjeta solo ha aprobado una parte del importe. Esa parte se está devolviendo.
declined = La tarjeta ha sido rechazada por el banco emisor. No se ha cobrado nada.
declined-funds = La tarjeta ha sido rechazada: fondos insuficientes. No se ha cobrado nada.
declined-expired = La tarjeta ha sido rechazada: está vencida. No se ha cobrado nada.
declined-code = La tarjeta ha sido rechazada: el código de seguridad (CVC) es incorrecto. No se ha cobrado nada.
declined-confirmation = La tarjeta ha sido rechazada: el banco emisor exige una confirmación. No se ha cobrado nada.
declined-unconfirmed = La tarjeta ha sido rechazada: el pago no se ha confirmado con el banco emisor. No se ha cobrado nada.
declined-limit = El importe supera el límite para un pago con tarjeta. No se ha cobrado nada.
declined-busy = En este momento no se pueden aceptar más pagos con tarjeta. No se ha cobrado nada; inténtelo de nuevo más tarde.
declined-network = Se han hecho demasiados pagos desde su red. No se ha cobrado nada; inténtelo de nuevo más tarde.
declined-unsupported = La tarjeta ha sido rechazada: no se puede usar aquí. No se ha cobrado nada.
declined-saving = Si eligió usar esta tarjeta para las renovaciones, también puede volver a intentarlo sin esa opción: su banco podrá pedirle entonces que confirme el pago.

## The page after a bank's confirmation

one-moment = Un momento, por favor
bank-pending = Su banco aún no ha confirmado el pago. Esta página se actualiza automáticamente.
payment-declined = El pago ha sido rechazado
payment-not-made = No se ha podido realizar el pago
close-page = Puede cerrar esta página.
payment-undone-title = Pago
payment-undone = Este pago se ha cancelado o reembolsado.
thank-you = Gracias
bank-confirmed = Su banco ha confirmado el pago.

## The simulated bank

bank-title = Confirme su pago
bank-simulated = Este es un banco simulado.
bank-question = ¿Pagar con la tarjeta { $card }?
bank-confirm = Confirmar
bank-refuse = Rechazar
bank-time = Tiempo para decidir: { $seconds } s. Después, el pago no se realizará.
bank-time-over = Se ha agotado el tiempo. El pago no se ha confirmado y no se ha cobrado nada.
bank-go-back = Volver
bank-done = Listo. Puede cerrar esta página.
bank-choose = Elija «Confirmar» o «Rechazar».
bank-nothing = Aquí no hay nada que confirmar.
bank-unavailable = No es posible en este momento. Inténtelo de nuevo en unos instantes.

## Errors

nothing-here = Aquí no hay nada que pagar
address-invalid = Esta dirección no es válida. Compruebe que esté completa.
did-not-work = No ha funcionado
open-in-browser = Abra la página en un navegador y pague con el botón que aparece en ella.
too-many-requests = Ha habido demasiadas solicitudes. Con esta solicitud no se ha cobrado nada; inténtelo de nuevo en unos segundos.
unreadable = No se ha podido leer la solicitud. No se ha cobrado nada; vuelva a la página e inténtelo de nuevo.
our-fault = Se ha producido un error en nuestro sistema
attempt-charged-nothing = En este intento no se ha cobrado nada. Inténtelo de nuevo.

## The card field

card-details = Datos de la tarjeta
field-script-needed = Para introducir una tarjeta se necesita JavaScript.
field-unknown = Este campo de tarjeta no existe.
field-used = Este campo de tarjeta ya se ha usado o ha caducado. Vuelva a cargar la página.
field-busy = Ha habido demasiadas solicitudes. Inténtelo de nuevo en unos segundos.
field-unavailable = Aquí todavía no se admiten tarjetas.
field-failed = Se ha producido un error en nuestro sistema. Inténtelo de nuevo.
card-number = Número de tarjeta
expiry-date = Vencimiento
expiry-placeholder = MM / AA
security-code = Código CVC
security-code-placeholder = CVC
security-code-hint = 3 dígitos en el reverso de la tarjeta; 4 en el anverso si es American Express
name-on-card = Nombre en la tarjeta
country = País
postal-code = Código postal
enter-number = Introduzca el número de tarjeta.
number-invalid = El número de tarjeta no es válido. Compruébelo.
enter-expiry = Introduzca la fecha de vencimiento.
expiry-malformed = La fecha de vencimiento no es válida. Introduzca el mes y el año, por ejemplo, 04 / 29.
expiry-invalid = La fecha de vencimiento no es válida. Compruébela.
card-expired = La tarjeta está vencida. Compruebe la fecha o use otra tarjeta.
enter-code = Introduzca el código de seguridad (CVC): 3 dígitos en el reverso de la tarjeta.
enter-code-amex = Introduzca el código de seguridad (CVC): 4 dígitos en el anverso de la tarjeta.
enter-name = Introduzca el nombre que figura en la tarjeta.
enter-postal-code = Introduzca el código postal.
country-invalid = El país no es válido. Compruébelo.
card-invalid = Los datos de la tarjeta no son válidos. Compruébelos.
card-unreadable = No se han podido leer los datos de la tarjeta. Inténtelo de nuevo.
processor-unreachable = No se ha podido contactar con el procesador de pagos. No se ha cobrado nada; inténtelo de nuevo.

## The script in a merchant's page

service-unreachable = No se ha podido contactar con el servicio de pago. Inténtelo de nuevo.
service-busy = El servicio de pago está saturado. Inténtelo de nuevo en un momento.
took-too-long = La operación ha tardado demasiado. Inténtelo de nuevo.
not-available-here = En este momento no es posible pagar aquí con tarjeta.
processor-silent = El procesador de pagos no ha respondido. Inténtelo de nuevo.
field-closed = El campo de tarjeta se ha cerrado.

## E-mails

mail-invoice-subject = Factura { $number } de { $payee }
mail-invoice-intro = { $payee } le ha enviado una factura de { $amount }.
mail-invoice-due = Por favor, páguela a más tardar el { $date }.
mail-invoice-collected = El { $date } se hará el cargo en su tarjeta guardada. No tiene que hacer nada.
mail-invoice-open = Ver y pagar la factura
mail-receipt-subject = Recibo de { $payee } por { $amount }
mail-receipt-intro = Ha pagado { $amount } a { $payee } el { $moment }. Gracias.
mail-receipt-open = Ver el recibo
mail-failed-subject = Su pago de { $amount } a { $payee } no se ha realizado
mail-failed-intro = { $payee } no ha podido cargar { $amount } en su tarjeta.
mail-failed-no-card = { $payee } no ha podido cargar { $amount }: no hay ninguna tarjeta guardada.
mail-failed-no-card-next = Puede pagar la factura con tarjeta en su página.
mail-failed-returning = Se está devolviendo un cargo anterior a su tarjeta. Por favor, pague la factura cuando se haya devuelto.
mail-failed-confirm = Su banco le pide que confirme usted este pago. Puede hacerlo en la página de la factura.
mail-failed-retry = Se volverá a intentar el cargo el { $date }. También puede pagar ahora, con esta tarjeta o con otra.
mail-failed-last = No está previsto ningún otro intento. Por favor, pague la factura con esta tarjeta o con otra.
mail-failed-open = Pagar la factura
mail-labelled = { $name }: { $value }
mail-invoice-pdf = Factura en PDF
mail-receipt-pdf = Recibo en PDF

## Receipts by e-mail

receipts-title = Recibos por correo electrónico
receipts-on = Recibe un recibo por correo electrónico cuando hace un pago a { $payee }. Los demás correos no cambian si deja de recibir recibos.
receipts-off = Ya no recibirá recibos de { $payee } por correo electrónico. El recibo de una factura sigue disponible en la página de esta.
receipts-stop = Dejar de recibir recibos por correo electrónico
receipts-resume = Volver a recibir recibos por correo electrónico

## Invitations to the portal, by e-mail

mail-invitation-subject = Invitación de { $payee }
mail-invitation-intro = { $payee } le invita con el rol: { $role }. Elija una contraseña en esta página:
mail-invitation-once = El enlace funciona una sola vez y es válido durante { $days } días. Si no conoce a { $payee }, puede ignorar este correo.
role-owner = propietario
role-developer = desarrollador
role-support = soporte
role-viewer = lector
