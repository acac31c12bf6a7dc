/**
 * Opens the bus. By default the client library gives up after ten attempts and detects a dead peer after
 * minutes. Here it reconnects without end and detects a dead peer within seconds, so a restart of the
 * server costs a second and needs no operator, and a frozen server of a cluster costs its clients no task.
 */
import { readFileSync } from "node:fs";
import {
  type Authenticator,
  type NatsConnection,
  type NodeConnectionOptions,
  nkeyAuthenticator,
  tokenAuthenticator,
} from "@nats-io/transport-node";
import { SUBJECTS } from "../protocol/subjects.ts";
import type { Logger } from "../runtime/observability/log.ts";
import { credentialsAuthenticator } from "./access/credentials-file.ts";
import { type Bus, BusError } from "./bus.ts";
import { busError } from "./bus-errors.ts";
import { NatsBus } from "./nats-bus.ts";
import { requireVersion } from "./server-check.ts";
import { greetedName } from "./server-greeting.ts";
import { type ExpectedFleet, otherFleet, parseServerName } from "./server-name.ts";
import { connectBatched } from "./transport.ts";

export interface BusCredentials {
  readonly user?: string;
  readonly pass?: string;
  readonly token?: string;
  /** A file with a token, for a signing service. Read again at every reconnect. */
  readonly tokenFile?: string;
  readonly nkeySeed?: string;
  /** Read again at every reconnect, so that rotated credentials take effect. */
  readonly credsFile?: string;
  /** The content of a credentials file. */
  readonly creds?: string;
}

export interface ConnectBusOptions {
  /** One or several, separated by commas: nats://host:4222 */
  readonly url: string;
  /** Shown in the server's connection list: `<service>/<host>/<pid>`. */
  readonly name: string;
  /** The name of the client or of the service's instance, a token. It is part of the inboxes. */
  readonly identity: string;
  /** The tenant of a client. Absent: the connection is a service's. */
  readonly tenant?: string;
  /** The name of the service, a token. Default: `identity`. */
  readonly service?: string;
  readonly log: Logger;
  readonly credentials?: BusCredentials;
  readonly tls?: {
    readonly caFile?: string;
    readonly certFile?: string;
    readonly keyFile?: string;
    readonly handshakeFirst?: boolean;
  };
  /** The timeout of one attempt to connect. Default {@link CONNECT_MS}. */
  readonly connectTimeoutMs?: number;
  /** Repeat attempts that got no answer for this long: a busy machine may need more time than one has. Default: one attempt. */
  readonly answerWithinMs?: number;
  /** The fleet that must answer. Nothing is sent to another one. Absent: any may. */
  readonly expected?: ExpectedFleet | undefined;
  /** Keep trying if the first attempt finds no server. Default false: throw. */
  readonly waitOnFirstConnect?: boolean;
  /** The key of the ids of durable messages, in hex. Absent: the ids are published as they are. */
  readonly messageKey?: string;
  /** The monitoring addresses of the servers, separated by commas. A function if they can change. */
  readonly monitorUrls?: string | (() => string | undefined);
}

const CONNECT_MS = 2_000;
/**
 * A server that leaves two pings unanswered, so one that is silent for 4 to 6 s, is taken for dead. An agent then reaches another server of
 * the cluster before the watchdogs count it as failed (`silence_ms`, 10 s by default).
 */
const PING = { everyMs: 2_000, unanswered: 2 };

/** The options of the library that make a connection last, for every kind of transport. */
export const RECONNECTING = {
  maxReconnectAttempts: -1,
  reconnectTimeWait: 250,
  reconnectJitter: 100,
  pingInterval: PING.everyMs,
  maxPingOut: PING.unanswered,
  // Without this each library call records a stack trace, which costs time.
  noAsyncTraces: true,
} as const;

/** Throws BusError without a connection or for another fleet, StartupError if the server is too old. */
export async function connectBus(o: ConnectBusOptions): Promise<Bus> {
  const inboxPrefix =
    o.tenant === undefined
      ? SUBJECTS.serviceInboxPrefix(o.service ?? o.identity, o.identity)
      : SUBJECTS.inboxPrefix(o.tenant, o.identity);
  const connection = await answeredConnection(o, inboxPrefix).catch(async (error: unknown) => {
    throw await explained(error, o);
  });
  try {
    requireExpected(connection.info?.server_name, o);
    requireVersion(connection.info?.version ?? "0.0.0");
  } catch (error) {
    await connection.close();
    throw error;
  }
  const { monitorUrls, messageKey, expected } = o;
  return new NatsBus({
    connection,
    inboxPrefix,
    log: o.log,
    messageKey,
    expected,
    monitorUrls: typeof monitorUrls === "function" ? monitorUrls : () => monitorUrls,
  });
}

async function answeredConnection(o: ConnectBusOptions, inboxPrefix: string): Promise<NatsConnection> {
  const endsAt = performance.now() + (o.answerWithinMs ?? 0);
  for (;;) {
    try {
      return await openConnection(o, inboxPrefix);
    } catch (error) {
      const isUnanswered = error instanceof BusError && error.kind === "timeout";
      if (!isUnanswered || performance.now() >= endsAt) throw error;
    }
  }
}

/** Another fleet refuses the credentials of the expected one, or has another authority, which would look like wrong settings. */
async function explained(error: unknown, o: ConnectBusOptions): Promise<unknown> {
  if (o.expected === undefined || !(error instanceof BusError)) return error;
  if (error.kind !== "permission" && error.details.certificate === undefined) return error;
  const name = await greetedName(o.url, o.connectTimeoutMs ?? CONNECT_MS);
  try {
    if (name !== undefined) requireExpected(name, o);
    return error;
  } catch (other) {
    return other;
  }
}

function requireExpected(serverName: string | undefined, { expected, url }: ConnectBusOptions): void {
  if (expected === undefined) return;
  const { fleet: found } = parseServerName(serverName);
  if (found === expected.fleet) return;
  throw new BusError("other_fleet", otherFleet(expected, found, withoutPassword(url)));
}

/** A connection without the streams of the bus. */
export async function openConnection(o: ConnectBusOptions, inboxPrefix: string): Promise<NatsConnection> {
  try {
    return await connectBatched({
      servers: o.url.split(",").map((url) => url.trim()),
      name: o.name,
      inboxPrefix,
      timeout: o.connectTimeoutMs ?? CONNECT_MS,
      waitOnFirstConnect: o.waitOnFirstConnect ?? false,
      ...RECONNECTING,
      ...authentication(o),
      ...tlsOptions(o),
    });
  } catch (error) {
    throw busError(error, { url: withoutPassword(o.url) });
  }
}

/** The client library takes `tls://` for `nats://`: without options it would accept a bus without TLS. */
export function tlsOptions({ url, tls }: Pick<ConnectBusOptions, "url" | "tls">) {
  return tls !== undefined || /(^|,)\s*tls:/i.test(url) ? { tls: { ...tls } } : {};
}

function authentication({
  credentials,
  expected,
}: Pick<ConnectBusOptions, "credentials" | "expected">): Partial<NodeConnectionOptions> {
  if (credentials === undefined) return {};
  const { user, pass, token, tokenFile, nkeySeed, credsFile, creds } = credentials;
  const authenticator: Authenticator[] = [];
  if (nkeySeed !== undefined) authenticator.push(nkeyAuthenticator(Buffer.from(nkeySeed)));
  if (credsFile !== undefined)
    authenticator.push(credentialsAuthenticator(() => readFileSync(credsFile, "utf8")));
  if (tokenFile !== undefined)
    authenticator.push(tokenAuthenticator(() => readFileSync(tokenFile, "utf8").trim()));
  if (creds !== undefined) authenticator.push(credentialsAuthenticator(() => creds));
  return {
    ...(user !== undefined && { user }),
    ...(pass !== undefined && { pass }),
    ...(token !== undefined && { token }),
    ...(authenticator.length > 0 && { authenticator }),
    // A file can be replaced by a valid one, and another fleet may answer until the expected one is back. Other credentials that were
    // refused twice stay refused.
    ignoreAuthErrorAbort: credsFile !== undefined || tokenFile !== undefined || expected !== undefined,
  };
}

/** One or several addresses as they may be shown. */
export function withoutPassword(url: string): string {
  return url.replace(/\/\/[^/@]*@/g, "//…@");
}
