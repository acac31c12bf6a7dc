/** The reasons for which a token is refused, for logs and metrics. The holder learns none of them. */
export type RefusalReason =
  | "no_token"
  | "form"
  | "issuer"
  | "audience"
  | "claims"
  | "expired"
  | "algorithm"
  | "signature"
  | "issuer_unavailable"
  | "tenant"
  | "name"
  | "role"
  | "failed";

export class TokenRefusal extends Error {
  override readonly name = "TokenRefusal";
  readonly reason: RefusalReason;

  constructor(reason: RefusalReason, cause?: unknown) {
    super("the token was refused", { cause });
    this.reason = reason;
  }
}
