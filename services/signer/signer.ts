/**
 * The signing service: the server asks it about each connection with a token. It verifies the token with the keys of its issuer
 * and answers with the rights of one name, in one tenant and one role, until the token expires. It has no state, so several may
 * run. While none runs, holders of tokens cannot connect; holders of credentials files can.
 */
import { hostname } from "node:os";
import { decodeJwt } from "jose";
import { type Applicant, type SignerGrant, serveCallout } from "../../shared/bus/access/callout.ts";
import { issueCredentials } from "../../shared/bus/access/claims.ts";
import { readSignerKeys, type SignerKeys } from "../../shared/bus/access/signer-keys.ts";
import { type Bus, BusError } from "../../shared/bus/bus.ts";
import { connectBus } from "../../shared/bus/connection.ts";
import { tlsOf } from "../../shared/bus/tls-settings.ts";
import { type Health, serveOps } from "../../shared/runtime/observability/ops-server.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { createClosers } from "../../shared/runtime/process/shutdown.ts";
import { exitCodes, StartupError } from "../../shared/runtime/process/startup.ts";
import { startTicker } from "../../shared/runtime/ticker.ts";
import { serveAgentCredentials } from "./agent-credentials.ts";
import { readIssuers, type SignerConfig } from "./config.ts";
import { type Issuer, KEYS_EVERY_MS, openIssuer } from "./issuer.ts";
import { TokenRefusal } from "./refusal.ts";

const KEYS_RETRY_MS = 2_000;
const CHECK_MS = 1_500;

/** Throws StartupError after closing everything that was opened. */
export async function start(context: ServiceContext, config: SignerConfig): Promise<Stop> {
  const { log, clock, metrics } = context;
  log.level = config.logLevel;
  const keys = readSignerKeys(config.signerKeys);
  const issuers = readIssuers(config.signerConfig).map(openIssuer);
  const closers = createClosers(log, clock);
  const stop = () => closers.close({ timeoutMs: config.stopTimeout });
  try {
    const callout = await serveCallout({
      bus: busOptions(config, log),
      keys,
      decide: (applicant) => decide({ ...context, keys }, issuers, applicant),
    }).catch((error: unknown) => {
      throw unreachable(config, error);
    });
    closers.add("callout", callout.stop);
    const bus = keys.service && (await joinFleet(config, { ...context, keys, service: keys.service }));
    if (bus === undefined) {
      const hint = "to answer them, repeat `fleet access init --signer DIR`, and restart the nats-server";
      log.warn({ path: config.signerKeys, hint }, "runners are not answered: the keys have no `service`");
    } else {
      closers.add("bus", () => bus.close());
      await serveAgentCredentials({ ...context, keys }, bus);
    }
    for (const issuer of issuers) closers.add("keys of an issuer", keepKeys(context, issuer));
    const ops = await serveOps({
      host: config.opsHost,
      port: config.opsPort,
      metrics: metrics.registry,
      log,
      checks: {
        bus: () => callout.health(),
        ...(bus && { fleet: () => bus.health({ timeoutMs: CHECK_MS }) }),
        issuers: async () => issuerHealth(issuers),
      },
    });
    closers.add("operations port", () => ops.stop());
    log.info({ issuers: issuers.map(({ settings }) => settings.issuer) }, "signer started");
    return stop;
  } catch (error) {
    await stop().catch((second: unknown) =>
      log.error({ error: second }, "closing after a failed start failed"),
    );
    throw error;
  }
}

async function decide(
  { log, clock, metrics, keys }: ServiceContext & { readonly keys: SignerKeys },
  issuers: readonly Issuer[],
  { token, host }: Applicant,
): Promise<SignerGrant | undefined> {
  try {
    const issuer = issuerOf(token, issuers);
    const grant = await issuer.verify(token, clock.now());
    if (keys.roles[grant.role] === undefined) throw new TokenRefusal("role");
    metrics.signerRequestsTotal.inc({ outcome: "issued" });
    log.info({ ...grant, host, issuer: issuer.settings.issuer }, "credentials issued");
    return grant;
  } catch (error) {
    const reason = error instanceof TokenRefusal ? error.reason : "failed";
    metrics.signerRequestsTotal.inc({ outcome: reason });
    // The text of a library's error may repeat parts of the token, so only its code is logged.
    const { code } = ((error as Error).cause ?? {}) as { code?: unknown };
    log.warn({ reason, code, host }, "a token was refused");
    return undefined;
  }
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
function keepKeys({ clock, log }: ServiceContext, issuer: Issuer): Stop {
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

function issuerHealth(issuers: readonly Issuer[]): Health {
  const missing = issuers.filter((issuer) => !issuer.hasKeys()).map(({ settings }) => settings.issuer);
  const ok = missing.length === 0;
  return { ok, detail: ok ? "keys known" : `no keys of ${missing.join(", ")}` };
}

/** The second connection, in the account of the fleet, for requests of runners. */
async function joinFleet(
  config: SignerConfig,
  {
    log,
    keys,
    service,
  }: ServiceContext & { readonly keys: SignerKeys; readonly service: NonNullable<SignerKeys["service"]> },
): Promise<Bus> {
  const grant = { role: "signer", tenant: "=", name: "=signer" } as const;
  const { text: creds } = await issueCredentials(grant, { account: keys.account, signer: service });
  const options = busOptions(config, log);
  try {
    return await connectBus({ ...options, service: "signer", credentials: { creds } });
  } catch (error) {
    if (!(error instanceof BusError) || error.kind !== "permission") throw unreachable(config, error);
    throw new StartupError("the bus refuses the signing service in the account of the fleet", {
      exitCode: exitCodes.config,
      details: { url: config.busUrl },
      hint: "repeat `fleet access init --signer DIR`, and restart the nats-server with its files",
      cause: error,
    });
  }
}

function busOptions(config: SignerConfig, log: ServiceContext["log"]) {
  const { busUrl: url, busCredentials: credsFile } = config;
  if (credsFile === undefined) {
    throw new StartupError("the service has no credentials for the bus", {
      exitCode: exitCodes.config,
      details: { setting: "FLEET_NATS_CREDS", service: "signer" },
      hint: "run `fleet access init --signer DIR` and set FLEET_NATS_CREDS to DIR/signer.creds",
    });
  }
  const host = hostname()
    .replace(/[^A-Za-z0-9_-]/g, "-")
    .slice(0, 40);
  const identity = `${host}-${process.pid}`;
  return { url, name: `signer/${identity}`, identity, log, credentials: { credsFile }, ...tlsOf(config) };
}

function unreachable({ busUrl }: SignerConfig, error: unknown): unknown {
  if (error instanceof StartupError) return error;
  return new StartupError("the bus cannot be reached", {
    exitCode: exitCodes.unavailable,
    details: { url: busUrl, problem: error instanceof Error ? error.message : String(error) },
    hint: "start its nats-server with the files of `fleet access init --signer`, or set FLEET_URL",
    cause: error,
  });
}
