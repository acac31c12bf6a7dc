/** The issuers of a settings file: which of them made a token, and their keys, which are fetched before they are too old. */
import { decodeJwt } from "jose";
import type { IssuerSettings } from "../../../protocol/signer-settings.ts";
import type { Health } from "../../../runtime/observability/ops-server.ts";
import type { ServiceContext, Stop } from "../../../runtime/process/service.ts";
import { startTicker } from "../../../runtime/ticker.ts";
import { type Issuer, KEYS_EVERY_MS, openIssuer, type TokenGrant } from "./issuer.ts";
import { TokenRefusal } from "./refusal.ts";

const KEYS_RETRY_MS = 2_000;

export interface VerifiedToken {
  readonly grant: TokenGrant;
  readonly issuer: string;
}

export interface Issuers {
  /** Throws TokenRefusal. */
  verify(token: string): Promise<VerifiedToken>;
  health(): Health;
  readonly stop: Stop;
}

export function openIssuers(
  context: Pick<ServiceContext, "clock" | "log">,
  settings: readonly IssuerSettings[],
): Issuers {
  const issuers = settings.map(openIssuer);
  const stops = issuers.map((issuer) => keepKeys(context, issuer));
  return {
    async verify(token) {
      const issuer = issuerOf(token, issuers);
      return {
        grant: await issuer.verify(token, context.clock.now()),
        issuer: issuer.settings.issuer,
      };
    },
    health: () => healthOf(issuers),
    async stop() {
      await Promise.all(stops.map((stop) => stop()));
    },
  };
}

/** Chooses by an issuer that is not verified yet. The verification compares it again. */
function issuerOf(token: string, issuers: readonly Issuer[]): Issuer {
  if (token === "") throw new TokenRefusal("no_token");
  let named: unknown;
  try {
    named = decodeJwt(token).iss;
  } catch (error) {
    throw new TokenRefusal("form", error);
  }
  const issuer = issuers.find(({ settings }) => settings.issuer === named);
  if (issuer === undefined) throw new TokenRefusal("issuer");
  return issuer;
}

/** Asks more often while there are no keys, so that the service is soon ready. */
function keepKeys({ clock, log }: Pick<ServiceContext, "clock" | "log">, issuer: Issuer): Stop {
  let fetchedAt = Number.NEGATIVE_INFINITY;
  const run = async (): Promise<void> => {
    if (issuer.hasKeys() && clock.monotonic() - fetchedAt < KEYS_EVERY_MS) return;
    try {
      await issuer.refresh();
      fetchedAt = clock.monotonic();
    } catch (error) {
      const { code, message } = error as Error & { readonly code?: unknown };
      log.warn(
        { issuer: issuer.settings.issuer, code, problem: message },
        "the keys of an issuer cannot be fetched",
      );
    }
  };
  return startTicker({ name: "issuer keys", everyMs: KEYS_RETRY_MS, run, clock, log });
}

function healthOf(issuers: readonly Issuer[]): Health {
  const missing = issuers.filter((issuer) => !issuer.hasKeys()).map(({ settings }) => settings.issuer);
  const ok = missing.length === 0;
  return { ok, detail: ok ? "keys known" : `no keys of ${missing.join(", ")}` };
}
