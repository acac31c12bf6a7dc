/**
 * The signing service: the server asks it about each connection with a token. It verifies the token with the keys of its issuer
 * and answers with the rights of one name, in one tenant and one role, until the token expires. It has no state, so several may
 * run. While none runs, holders of tokens cannot connect; holders of credentials files can.
 */
import { hostname } from "node:os";
import { type Applicant, type SignerGrant, serveCallout } from "../../shared/bus/access/callout.ts";
import { issueCredentials } from "../../shared/bus/access/claims.ts";
import { type Issuers, openIssuers } from "../../shared/bus/access/issuers/issuers.ts";
import { TokenRefusal } from "../../shared/bus/access/issuers/refusal.ts";
import { readSignerKeys, type SignerKeys } from "../../shared/bus/access/signer-keys.ts";
import { type Bus, BusError } from "../../shared/bus/bus.ts";
import { connectBus } from "../../shared/bus/connection.ts";
import { tlsOf } from "../../shared/bus/tls-settings.ts";
import { serveOps } from "../../shared/runtime/observability/ops-server.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { createClosers } from "../../shared/runtime/process/shutdown.ts";
import { exitCodes, StartupError } from "../../shared/runtime/process/startup.ts";
import { serveAgentCredentials } from "./agent-credentials.ts";
import { readIssuers, type SignerConfig } from "./config.ts";

const CHECK_MS = 1_500;

/** Throws StartupError after closing everything that was opened. */
export async function start(context: ServiceContext, config: SignerConfig): Promise<Stop> {
  const { log, clock, metrics } = context;
  log.level = config.logLevel;
  const keys = readSignerKeys(config.signerKeys);
  const settings = readIssuers(config.signerConfig);
  const closers = createClosers(log, clock);
  const stop = () => closers.close({ timeoutMs: config.stopTimeout });
  const issuers = openIssuers(context, settings);
  closers.add("keys of the issuers", issuers.stop);
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
    const ops = await serveOps({
      host: config.opsHost,
      port: config.opsPort,
      metrics: metrics.registry,
      log,
      checks: {
        bus: () => callout.health(),
        ...(bus && { fleet: () => bus.health({ timeoutMs: CHECK_MS }) }),
        issuers: async () => issuers.health(),
      },
    });
    closers.add("operations port", () => ops.stop());
    log.info({ issuers: settings.map(({ issuer }) => issuer) }, "signer started");
    return stop;
  } catch (error) {
    await stop().catch((second: unknown) =>
      log.error({ error: second }, "closing after a failed start failed"),
    );
    throw error;
  }
}

async function decide(
  { log, metrics, keys }: ServiceContext & { readonly keys: SignerKeys },
  issuers: Issuers,
  { token, host }: Applicant,
): Promise<SignerGrant | undefined> {
  try {
    const { grant, issuer } = await issuers.verify(token);
    if (keys.roles[grant.role] === undefined) throw new TokenRefusal("role");
    metrics.signerRequestsTotal.inc({ outcome: "issued" });
    const { role, tenant, name, expiresAt } = grant;
    log.info({ role, tenant, name, expiresAt, host, issuer }, "credentials issued");
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
