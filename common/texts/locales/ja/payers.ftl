# Texts for payers. $payee is the name of the merchant.

language-name = 日本語

## Money and time

money = { $symbol }{ $number }
money-negative = −{ $symbol }{ $number }
money-by-code = { $code } { $number }
money-by-code-negative = −{ $code } { $number }
moment = { $date } { $time } { $zone }

## Titles of the page in the browser

title-open = { $payee }に{ $amount }を支払う
title-under-way = お支払い処理中：{ $payee }へ{ $amount }
title-not-now = 現在お支払いいただけません：{ $payee }へ{ $amount }
title-paid = お支払い済み：{ $payee }へ{ $amount }
title-closed = { $payee }：{ $amount }

## The state of the page

test-mode = テストモード：実際のお金は動きません。
under-way = お支払いを処理しています。再度お支払いの操作を行わないでください。このページは自動的に更新されます。
returning = 以前の請求分を、ご利用のカードに返金しています。返金が完了しましたら、こちらでお支払いいただけます。
too-many-declined = 承認されなかったカードが多いため、現在お支払いいただけません。1時間後にもう一度お試しいただくか、ほかのお支払い方法について{ $payee }にお問い合わせください。
paid-at = { $moment }にお支払いが完了しました。ありがとうございました。
paid-on = お支払い日時：{ $moment }。別のウィンドウでお支払いになった場合は、そのお支払いです。
paid = お支払いが完了しました。ありがとうございました。
already-paid = すでにお支払い済みです。お客様のカードには請求されていません。
not-charged = 今回の操作では請求は行われていません。
voided = この請求書は{ $payee }により無効にされました。お支払いは不要です。
cancelled = この支払いリンクは{ $payee }によりキャンセルされました。お支払いは不要です。
expired = この支払いリンクは期限が切れています。新しいリンクを{ $payee }にご依頼ください。
badge-voided = 無効
badge-cancelled = キャンセル済み
badge-expired = 期限切れ
badge-overdue = 期限超過
confirm-with-bank = カード発行会社が、このお支払いの本人認証を求めています。認証が完了するまで、請求は行われません。
continue-with-bank = 認証画面へ進む

## What is paid

tax-number = 登録番号 { $number }
invoice = 請求書
billed-to = 請求先
issued = 発行日
due = 支払期限
description = 内容
amount = 金額
all-lines = 明細（全{ $count }件）
subtotal = 小計
discount = 割引
tax = 税
total = 合計
surcharge = 追加手数料
tip = チップ
total-to-pay = お支払い金額
payable-until = { $moment }までお支払いいただけます。

## The form

pay-by-card = カードでのお支払い
script-needed = こちらでお支払いいただくには、ブラウザのJavaScriptを有効にする必要があります。カード情報はJavaScriptにより決済代行会社へ直接送信されます。有効にしていただくか、ほかのお支払い方法について{ $payee }にお問い合わせください。
add-tip = { $amount }のチップを追加
use-for-renewals = 今後の更新やその他の未払い請求書のお支払いにもこのカードを使用する
pay-amount = { $amount }を支払う
paying = 処理中…
card-goes-to-processor = カード情報は決済代行会社へ直接送信されます。
test-cards-only = テストカード専用です。カード情報は送信されません。
how-to-pay = お支払い方法
no-card-yet = このページでは、まだカードをご利用いただけません。お支払いについては{ $payee }にお問い合わせください。
amount-not-payable = この金額はこのページではお支払いいただけません。お支払いについては{ $payee }にお問い合わせください。
language = 言語

## Test cards

test-cards = テストカード
test-card-approved = 承認されます
test-card-declined = 拒否されます
test-card-low-balance = 拒否されます（残高不足）
test-card-lost = 恒久的に拒否されます
test-card-stolen = 同じく恒久的に拒否されます
test-card-expired = 有効期限切れです
test-card-code = 拒否されます（セキュリティコードの誤り）
test-card-challenge = 本人認証が必要です
test-card-partial = 半額のみ承認されます
test-card-others = 有効期限には将来の年月、セキュリティコードと名義には任意の値を入力してください。

## The receipt

receipt = 領収書
paid-to = お支払い先
paid-for = 内容
date = 日付
card = カード
card-ending = { $brand }（末尾{ $last4 }）
payment = 決済番号
total-paid = お支払い合計
refunded-since = その後の返金額
questions = お問い合わせ：

## Why a submission failed

no-card-sent = カード情報が送信されませんでした。もう一度入力してください。
total-changed = 金額が変更されました。請求は行われていません。新しい金額をご確認のうえ、お支払いください。
currency-not-accepted = この通貨でのカード払いはご利用いただけません。請求は行われていません。
card-unusable = カードを使用できませんでした。請求は行われていません。もう一度お試しください。
card-already-used = このカード情報はすでにお支払いに使用されています。請求は行われていません。もう一度お試しください。
no-response = 応答がありませんでした。もう一度ボタンを押してください。お支払いが完了していた場合はその旨が表示され、二重に請求されることはありません。

## Why a payment failed

try-again = もう一度お試しいただくか、別のカードをご利用ください。
other-amount-returned = 表示とは異なる金額がカードに請求されました。その金額は返金済みです。
other-amount-returning = 表示とは異なる金額がカードに請求されました。その金額は現在返金処理中です。
payment-failed = お支払いを完了できませんでした。請求は行われていません。
part-returned = カード発行会社が承認したのは金額の一部のみでした。その分は返金済みです。
part-returning = カード発行会社が承認したのは金額の一部のみでした。その分は現在返金処理中です。
declined = カード発行会社により、カードが承認されませんでした。請求は行われていません。
declined-funds = 残高またはご利用可能額が不足しているため、カードが承認されませんでした。請求は行われていません。
declined-expired = 有効期限が切れているため、カードが承認されませんでした。請求は行われていません。
declined-code = セキュリティコードが正しくないため、カードが承認されませんでした。請求は行われていません。
declined-confirmation = カード発行会社による本人認証が必要なため、カードが承認されませんでした。請求は行われていません。
declined-unconfirmed = カード発行会社での本人認証が完了しなかったため、カードが承認されませんでした。請求は行われていません。
declined-limit = 金額がカード払いの上限を超えています。請求は行われていません。
declined-busy = 現在、これ以上のカード払いを受け付けることができません。請求は行われていません。しばらくしてからもう一度お試しください。
declined-network = ご利用のネットワークからのお支払いが多すぎます。請求は行われていません。しばらくしてからもう一度お試しください。
declined-unsupported = こちらではご利用いただけないカードのため、承認されませんでした。請求は行われていません。
declined-saving = 更新のお支払いにもこのカードを使用するよう選択された場合は、選択を外してもう一度お試しいただけます。その際、カード会社から支払いの確認を求められることがあります。

## The page after a bank's confirmation

one-moment = 少々お待ちください
bank-pending = カード発行会社によるお支払いの確認がまだ完了していません。このページは自動的に更新されます。
payment-declined = お支払いが承認されませんでした
payment-not-made = お支払いを完了できませんでした
close-page = このページを閉じていただいて構いません。
payment-undone-title = お支払い
payment-undone = このお支払いは取り消されたか、返金されました。
thank-you = ありがとうございました
bank-confirmed = カード発行会社によるお支払いの確認が完了しました。

## The simulated bank

bank-title = お支払いの確認
bank-simulated = これは銀行の模擬画面です。
bank-question = カード { $card } でお支払いになりますか？
bank-confirm = 確認する
bank-refuse = 拒否する
bank-time = 残り時間：{ $seconds }秒。時間を過ぎると、お支払いは行われません。
bank-time-over = 制限時間が過ぎました。お支払いは確認されず、請求は行われていません。
bank-go-back = 戻る
bank-done = 完了しました。このページを閉じていただいて構いません。
bank-choose = 「確認する」または「拒否する」を選択してください。
bank-nothing = 確認いただくものはありません。
bank-unavailable = 現在ご利用いただけません。しばらくしてからもう一度お試しください。

## Errors

nothing-here = お支払いいただくものはありません
address-invalid = このアドレスは無効です。アドレスが途中で切れていないかご確認ください。
did-not-work = 処理できませんでした
open-in-browser = ブラウザでページを開き、ページ上のボタンからお支払いください。
too-many-requests = リクエストが多すぎます。このリクエストによる請求は行われていません。数秒後にもう一度お試しください。
unreadable = リクエストを読み取れませんでした。請求は行われていません。前のページに戻って、もう一度お試しください。
our-fault = 当方で問題が発生しました
attempt-charged-nothing = 今回の操作による請求は行われていません。もう一度お試しください。

## The card field

card-details = カード情報
field-script-needed = カード情報の入力にはJavaScriptが必要です。
field-unknown = このカード入力欄は存在しません。
field-used = このカード入力欄はすでに使用されたか、期限が切れています。ページを再読み込みしてください。
field-busy = リクエストが多すぎます。数秒後にもう一度お試しください。
field-unavailable = こちらではまだカードをご利用いただけません。
field-failed = 当方で問題が発生しました。もう一度お試しください。
card-number = カード番号
expiry-date = 有効期限
expiry-placeholder = 月 / 年
security-code = セキュリティコード
security-code-placeholder = CVC
security-code-hint = カード裏面の3桁の数字（American Expressの場合は表面の4桁の数字）
name-on-card = カード名義
country = 国
postal-code = 郵便番号
enter-number = カード番号を入力してください。
number-invalid = カード番号が正しくありません。ご確認ください。
enter-expiry = 有効期限を入力してください。
expiry-malformed = 有効期限が正しくありません。「04 / 29」のように月と年を入力してください。
expiry-invalid = 有効期限が正しくありません。ご確認ください。
card-expired = カードの有効期限が切れています。有効期限をご確認いただくか、別のカードをご利用ください。
enter-code = セキュリティコード（カード裏面の3桁の数字）を入力してください。
enter-code-amex = セキュリティコード（カード表面の4桁の数字）を入力してください。
enter-name = カード名義を入力してください。
enter-postal-code = 郵便番号を入力してください。
country-invalid = 国が正しくありません。ご確認ください。
card-invalid = カード情報が正しくありません。ご確認ください。
card-unreadable = カード情報を読み取れませんでした。もう一度お試しください。
processor-unreachable = 決済代行会社に接続できませんでした。請求は行われていません。もう一度お試しください。

## The script in a merchant's page

service-unreachable = 決済サービスに接続できませんでした。もう一度お試しください。
service-busy = 決済サービスが混み合っています。少し待ってからもう一度お試しください。
took-too-long = 処理に時間がかかりすぎました。もう一度お試しください。
not-available-here = 現在、こちらではカードでのお支払いをご利用いただけません。
processor-silent = 決済代行会社から応答がありませんでした。もう一度お試しください。
field-closed = カード入力欄は閉じられました。

## E-mails

mail-invoice-subject = { $payee }からの請求書 { $number }
mail-invoice-intro = { $payee }から{ $amount }の請求書が届きました。
mail-invoice-due = { $date }までにお支払いください。
mail-invoice-collected = { $date }に、ご登録のカードへ請求が行われます。お手続きは不要です。
mail-invoice-open = 請求書を表示して支払う
mail-receipt-subject = { $payee }からの領収書（{ $amount }）
mail-receipt-intro = { $moment }に{ $payee }へ{ $amount }をお支払いいただきました。ありがとうございます。
mail-receipt-open = 領収書を表示する
mail-failed-subject = { $payee }への{ $amount }のお支払いが完了していません
mail-failed-intro = { $payee }は、お客様のカードに{ $amount }を請求できませんでした。
mail-failed-no-card = { $payee }は{ $amount }を請求できませんでした。請求できるカードが登録されていません。
mail-failed-no-card-next = 請求書のページから、カードでお支払いいただけます。
mail-failed-returning = 以前の請求分をカードに返金しています。返金が完了しましたら、請求書をお支払いください。
mail-failed-confirm = カード発行会社が、このお支払いについてご本人による確認を求めています。請求書のページで確認できます。
mail-failed-retry = { $date }に再度請求を試みます。このカードまたは別のカードで今すぐお支払いいただくこともできます。
mail-failed-last = カードへの再請求の予定はありません。このカードまたは別のカードで請求書をお支払いください。
mail-failed-open = 請求書を支払う
mail-labelled = { $name }：{ $value }
mail-invoice-pdf = 請求書（PDF）
mail-receipt-pdf = 領収書（PDF）

## Receipts by e-mail

receipts-title = メールでの領収書
receipts-on = { $payee }へお支払いいただくと、領収書がメールで届きます。領収書の配信を停止しても、ほかのメールには影響しません。
receipts-off = { $payee }からの領収書のメール配信を停止しました。請求書の領収書は、その請求書のページでいつでもご確認いただけます。
receipts-stop = 領収書のメール配信を停止する
receipts-resume = 領収書のメール配信を再開する

## Invitations to the portal, by e-mail

mail-invitation-subject = { $payee }からの招待
mail-invitation-intro = { $payee }から「{ $role }」として招待されています。次のページでパスワードを設定してください。
mail-invitation-once = このリンクは1回だけ使えます。有効期間は{ $days }日間です。{ $payee }にお心当たりがない場合は、このメールを無視してください。
role-owner = オーナー
role-developer = 開発者
role-support = サポート
role-viewer = 閲覧者
