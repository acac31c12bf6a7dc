/**
 * Verifies the ID token of a step-up for an electronic signature: a fresh authentication of the signer, for this statement, at a provider and a client
 * that are configured for signatures. It returns the public key, with which the token verifies offline for good.
 */
import {
  compactVerify,
  createRemoteJWKSet,
  decodeJwt,
  errors,
  importJWK,
  type JSONWebKeySet,
  type JWK,
  type JWTPayload,
  jwtVerify,
} from "jose";
import { FleetError } from "../../../protocol/errors.ts";
import type { EsignKey } from "../../../protocol/esign-proof.ts";
import type { EsignIssuerSettings } from "../../../protocol/esign-settings.ts";
import type { SignerId } from "../../../protocol/esign-signer.ts";
import { LIMITS } from "../../../protocol/limits.ts";
import { parsePrincipal } from "../../../protocol/principal.ts";
import { SigningRefused } from "../../../protocol/signing-refusal.ts";

/** 21 CFR 11.200(a)(1): an authentication for this signature, and not one of the morning. */
const AUTHENTICATED_WITHIN_MS = 5 * 60_000;
/** From the time of the statement: the person reads it, and logs in. */
const STATED_WITHIN_MS = 10 * 60_000;
/** Between the login and its token. A longer time means that no login was needed for this token. */
const TOKEN_AFTER_S = 60;
/** Of the name that a refusal repeats. */
const NAME_CHARS = 200;
const KEYS_MS = 1_500;
const KEYS_AGE_MS = 10 * 60_000;
/** A provider may have replaced its key a moment ago. Unknown keys do not make this service ask more often. */
const KEYS_AGAIN_MS = 1_000;

export interface ExpectedStepUp {
  readonly tenant: string;
  /** The principal that sends it. */
  readonly caller: string;
  readonly signer: SignerId;
  readonly printedName: string;
  readonly nonce: string;
  /** The time of the statement. */
  readonly signedAtMs: number;
  readonly nowMs: number;
}

export interface EsignIssuers {
  /** Those for a tenant. */
  of(tenant: string): readonly EsignIssuerSettings[];
  /** Throws SigningRefused, or UNAVAILABLE while the keys of the provider are unknown. */
  verify(token: string, expected: ExpectedStepUp): Promise<EsignKey>;
}

interface OpenIssuer {
  readonly settings: EsignIssuerSettings;
  readonly keys: ReturnType<typeof createRemoteJWKSet>;
}

export function openEsignIssuers(settings: readonly EsignIssuerSettings[]): EsignIssuers {
  const issuers = settings.map(
    (one): OpenIssuer => ({
      settings: one,
      keys: createRemoteJWKSet(new URL(one.keys_url), {
        timeoutDuration: KEYS_MS,
        cacheMaxAge: KEYS_AGE_MS,
        cooldownDuration: KEYS_AGAIN_MS,
      }),
    }),
  );
  return {
    of: (tenant) => settings.filter(({ tenants }) => tenants.includes(tenant)),
    async verify(token, expected) {
      const issuer = issuers.find(
        ({ settings: { issuer: name, tenants } }) =>
          name === issuerIn(token) && tenants.includes(expected.tenant),
      );
      if (issuer === undefined) throw new SigningRefused("issuer");
      const { payload, protectedHeader } = await jwtVerify(token, issuer.keys, {
        issuer: issuer.settings.issuer,
        audience: issuer.settings.client_id,
        algorithms: issuer.settings.algorithms,
        clockTolerance: LIMITS.clock_skew_ms_max / 1_000,
        requiredClaims: ["exp", "iat", "sub", "nonce"],
        currentDate: new Date(expected.nowMs),
      }).catch((error: unknown) => {
        throw refusalOf(error);
      });
      judgeStepUp(payload, issuer.settings, expected);
      return keyOf(token, protectedHeader, issuer.keys.jwks());
    },
  };
}

/** Chooses by an issuer that is not verified yet. The verification compares it again. */
function issuerIn(token: string): unknown {
  try {
    return decodeJwt(token).iss;
  } catch (error) {
    throw new SigningRefused("token", error);
  }
}

function refusalOf(error: unknown): FleetError {
  if (error instanceof errors.JWTClaimValidationFailed)
    return new SigningRefused(error.claim === "aud" ? "audience" : "token", error);
  const isOfKeys =
    !(error instanceof errors.JOSEError) ||
    error instanceof errors.JWKSTimeout ||
    error instanceof errors.JWKSInvalid ||
    // What the provider answers is no set of keys.
    error.code === "ERR_JOSE_GENERIC";
  if (!isOfKeys) return new SigningRefused("token", error);
  return new FleetError("UNAVAILABLE", "the keys of the identity provider are not available", {
    retryAfterMs: LIMITS.overload_retry_ms,
    cause: error,
  });
}

function judgeStepUp(claims: JWTPayload, settings: EsignIssuerSettings, expected: ExpectedStepUp): void {
  const { aud, azp, nonce, sub, iat, auth_time: authTime } = claims;
  if (Array.isArray(aud) && aud.length > 1 && azp !== settings.client_id)
    throw new SigningRefused("audience");
  if (nonce !== expected.nonce) throw new SigningRefused("nonce");
  const { issuer, subject } = expected.signer;
  if (settings.issuer !== issuer || sub !== subject) {
    const logged_in_as = String(claims[settings.name_claim] ?? sub).slice(0, NAME_CHARS);
    throw new SigningRefused("person", undefined, { began_as: expected.printedName, logged_in_as });
  }
  if (claims[settings.name_claim] !== expected.printedName) throw new SigningRefused("name");
  judgePerson(claims, settings, expected.caller);
  if (typeof authTime !== "number" || !isFresh(authTime * 1_000, expected)) throw new SigningRefused("stale");
  if (!(iat! - authTime <= TOKEN_AFTER_S)) throw new SigningRefused("stale");
}

/** The rules that may have changed since a person logged in for the enrolment of a passkey. Throws SigningRefused. */
export function judgePerson(
  claims: Readonly<Record<string, unknown>>,
  settings: EsignIssuerSettings,
  caller: string,
): void {
  const { acr, amr } = claims;
  const name = parsePrincipal(caller)?.name;
  if (settings.caller_claim !== undefined && claims[settings.caller_claim] !== name)
    throw new SigningRefused("caller");
  const hasLevel = settings.acr_values === undefined || settings.acr_values.some((one) => one === acr);
  const methods: readonly unknown[] = Array.isArray(amr) ? amr : [];
  const hasMethods = (settings.amr ?? []).every((one) => methods.includes(one));
  if (!hasLevel || !hasMethods) throw new SigningRefused("assurance");
}

/** After the statement was shown, and shortly before now; the clocks of three machines differ a little. */
function isFresh(authMs: number, { signedAtMs, nowMs }: ExpectedStepUp): boolean {
  const skew = LIMITS.clock_skew_ms_max;
  return (
    authMs >= signedAtMs - skew &&
    authMs >= nowMs - AUTHENTICATED_WITHIN_MS - skew &&
    authMs <= nowMs + skew &&
    isStatedNow(signedAtMs, nowMs)
  );
}

/** Whether a statement of this time may be signed now. */
export function isStatedNow(signedAtMs: number, nowMs: number): boolean {
  const skew = LIMITS.clock_skew_ms_max;
  return signedAtMs <= nowMs + skew && signedAtMs >= nowMs - STATED_WITHIN_MS - skew;
}

const PUBLIC_MEMBERS = ["kty", "crv", "x", "y", "n", "e", "kid", "alg"] as const;

/** The key of the set that verifies the token, without any member that is not needed. */
async function keyOf(
  token: string,
  { alg, kid }: { readonly alg: string; readonly kid?: string },
  set: JSONWebKeySet | undefined,
): Promise<EsignKey> {
  for (const key of set?.keys ?? []) {
    if (kid !== undefined && key.kid !== kid) continue;
    if (await isKeyOf(token, key, alg))
      return Object.fromEntries(
        PUBLIC_MEMBERS.flatMap((name) => (key[name] === undefined ? [] : [[name, key[name]]])),
      ) as EsignKey;
  }
  // The set was replaced between the verification and now.
  throw new FleetError("UNAVAILABLE", "the keys of the identity provider have just changed", {
    retryAfterMs: LIMITS.overload_retry_ms,
  });
}

async function isKeyOf(token: string, key: JWK, alg: string): Promise<boolean> {
  try {
    await compactVerify(token, await importJWK(key, alg), { algorithms: [alg] });
    return true;
  } catch {
    return false;
  }
}
