/** One issuer of tokens: verifies a token and says who its holder is in the fleet. */
import { readFileSync } from "node:fs";
import { createRemoteJWKSet, customFetch, errors, type JWTPayload, jwtVerify } from "jose";
import { isToken } from "../../../protocol/ids.ts";
import { isPrincipal, principalToken } from "../../../protocol/principal.ts";
import { isScope } from "../../../protocol/rest/scopes.ts";
import type { ClientRole } from "../../../protocol/roles.ts";
import type { ClaimSource, IssuerSettings } from "../../../protocol/signer-settings.ts";
import type { SignerGrant } from "../callout.ts";
import { type RefusalReason, TokenRefusal } from "./refusal.ts";

/** The clocks of two machines may differ by this time: a token that has just been made is accepted. */
const CLOCK_TOLERANCE_S = 5;
/** Less than the two seconds in which the server waits for an answer. */
const KEYS_MS = 1_500;
/** A key that the issuer withdrew is trusted for this time at most. */
const KEYS_AGE_MS = 10 * 60_000;
/** Keys are fetched before they are too old, so that a short failure of the issuer has no effect. */
export const KEYS_EVERY_MS = KEYS_AGE_MS / 5;
/** The longest connection with one token, also if the token is valid for longer. */
const CONNECTION_S_MAX = 24 * 3_600;

export interface TokenGrant extends SignerGrant {
  /** The scopes of the HTTP API. null: all that the role may do. */
  readonly scopes: readonly string[] | null;
}

export interface Issuer {
  readonly settings: IssuerSettings;
  /** Throws TokenRefusal. `now` in milliseconds. */
  verify(token: string, now: number): Promise<TokenGrant>;
  /** Fetches its keys. */
  refresh(): Promise<void>;
  /** False while its keys are unknown. */
  hasKeys(): boolean;
}

export function openIssuer(settings: IssuerSettings): Issuer {
  const { issuer, audience, algorithms, keys_token_file: tokenFile } = settings;
  const keys = createRemoteJWKSet(new URL(settings.keys_url), {
    timeoutDuration: KEYS_MS,
    cacheMaxAge: KEYS_AGE_MS,
    // Read for each call, because such a token is renewed.
    ...(tokenFile !== undefined && {
      [customFetch]: (url: string, options: RequestInit) =>
        fetch(url, {
          ...options,
          headers: { authorization: `Bearer ${readFileSync(tokenFile, "utf8").trim()}` },
        }),
    }),
  });
  return {
    settings,
    async verify(token, now) {
      const { payload } = await jwtVerify(token, keys, {
        issuer,
        audience,
        algorithms,
        clockTolerance: CLOCK_TOLERANCE_S,
        requiredClaims: ["exp"],
        currentDate: new Date(now),
      }).catch((error: unknown) => {
        throw new TokenRefusal(reasonOf(error), error);
      });
      return grantOf(payload, settings, now);
    },
    refresh: () => keys.reload(),
    hasKeys: () => keys.fresh,
  };
}

function grantOf(payload: JWTPayload, settings: IssuerSettings, now: number): TokenGrant {
  // The credentials end with the token, so the tolerance does not extend it.
  if (payload.exp! * 1_000 <= now) throw new TokenRefusal("expired");
  const tenant = mappedValue(payload, settings.tenant);
  const plain = mappedValue(payload, settings.name);
  const role = mappedValue(payload, settings.role);
  if (!isRole(role, settings)) throw new TokenRefusal("role");
  // A plain name holds no `=`, so that no claim makes a person of an agent.
  if (tenant === undefined || !isToken(tenant)) throw new TokenRefusal("tenant");
  if (plain === undefined || !isToken(plain)) throw new TokenRefusal("name");
  const name = settings.person ? principalToken({ kind: "human", name: plain }) : plain;
  if (!isPrincipal(name)) throw new TokenRefusal("name");
  const expiresAt = Math.min(payload.exp!, Math.floor(now / 1_000) + CONNECTION_S_MAX);
  return { role, tenant, name, expiresAt, scopes: scopesOf(payload, settings) };
}

function isRole(role: string | undefined, { roles }: IssuerSettings): role is ClientRole {
  return (roles as readonly (string | undefined)[]).includes(role);
}

/** undefined: the claim is missing, or no text, or not in the table. */
function mappedValue(payload: JWTPayload, source: ClaimSource): string | undefined {
  if ("value" in source) return source.value;
  const found = valueAt(payload, source.claim);
  if (typeof found !== "string") return undefined;
  if (source.values === undefined) return found;
  return Object.hasOwn(source.values, found) ? source.values[found] : undefined;
}

function valueAt(payload: JWTPayload, claim: string | readonly string[]): unknown {
  let found: unknown = payload;
  for (const name of typeof claim === "string" ? [claim] : claim)
    found =
      typeof found === "object" && found !== null && Object.hasOwn(found, name)
        ? (found as Record<string, unknown>)[name]
        : undefined;
  return found;
}

/** Words that are no scopes of the API, such as `openid`, are for other parties. Without any of ours, the token opens no operation. */
function scopesOf(payload: JWTPayload, { scopes }: IssuerSettings): readonly string[] | null {
  if (scopes === undefined) return null;
  const found = valueAt(payload, scopes.claim);
  const words = typeof found === "string" ? found.split(" ") : Array.isArray(found) ? found : [];
  return words
    .filter((word) => typeof word === "string" && word.startsWith(scopes.prefix))
    .map((word: string) => word.slice(scopes.prefix.length))
    .filter(isScope);
}

function reasonOf(error: unknown): RefusalReason {
  if (error instanceof errors.JWTExpired) return "expired";
  if (error instanceof errors.JWTClaimValidationFailed) return error.claim === "aud" ? "audience" : "claims";
  if (error instanceof errors.JOSEAlgNotAllowed || error instanceof errors.JOSENotSupported)
    return "algorithm";
  if (error instanceof errors.JWSSignatureVerificationFailed) return "signature";
  if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys)
    return "signature";
  if (error instanceof errors.JWTInvalid || error instanceof errors.JWSInvalid) return "form";
  // Every other failure is one of getting the keys.
  return "issuer_unavailable";
}
