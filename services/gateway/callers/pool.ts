/**
 * The connections of callers to the bus, one for each of their credentials. A connection has the rights of its
 * caller and no others, so the gateway cannot do anything that the caller may not do. It is closed when it is idle,
 * when its credentials end, and when the bus ends it, such as after a revocation.
 */
import { type Bus, BusError } from "../../../shared/bus/bus.ts";
import type { BusCredentials } from "../../../shared/bus/connection.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import { TooManyRequests } from "./authentication.ts";
import type { CallerIdentity } from "./identity.ts";

const CONNECTIONS_MAX = 256;
/** Of one client, which may get new tokens at will. Each has a connection of its own. */
const OF_CLIENT_MAX = 32;
/** Until one of its requests has ended, probably. */
const BUSY_MS = 1_000;
const IDLE_MS = 60_000;
const SWEEP_MS = 5_000;
const DRAIN_MS = 1_000;

/** A caller that the bus has admitted. */
export interface AdmittedCaller
  extends Pick<CallerIdentity, "tenant" | "name" | "role" | "scopes" | "expiresAt" | "isApiKey"> {
  readonly bus: Bus;
  /** Aborted when the connection has ended. */
  readonly ended: AbortSignal;
}

export type OpenBus = (
  identity: Pick<CallerIdentity, "tenant" | "name">,
  credentials: BusCredentials | undefined,
) => Promise<Bus>;

interface PooledConnection {
  readonly identity: CallerIdentity;
  readonly opening: Promise<AdmittedCaller>;
  readonly ending: AbortController;
  users: number;
  usedAt: number;
}

export class CallerPool {
  readonly #open: OpenBus;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #connections = new Map<string, PooledConnection>();
  readonly #stopSweeping: Stop;

  constructor(open: OpenBus, { clock, log }: { readonly clock: Clock; readonly log: Logger }) {
    this.#open = open;
    this.#clock = clock;
    this.#log = log;
    this.#stopSweeping = startTicker({
      name: "idle connections",
      everyMs: SWEEP_MS,
      run: async () => this.#sweep(),
      clock,
      log,
    });
  }

  get size(): number {
    return this.#connections.size;
  }

  /** Keeps the connection open while `work` runs. Throws UNAUTHORIZED if the bus refuses the credentials. */
  async use<T>(identity: CallerIdentity, work: (caller: AdmittedCaller) => Promise<T>): Promise<T> {
    const { caller, release } = await this.hold(identity);
    try {
      return await work(caller);
    } finally {
      release();
    }
  }

  /** Keeps the connection open until `release` is called. */
  async hold(
    identity: CallerIdentity,
  ): Promise<{ readonly caller: AdmittedCaller; readonly release: () => void }> {
    if (isOver(identity, this.#clock)) throw new FleetError("UNAUTHORIZED", "the credentials have expired");
    const connection = this.#connections.get(identity.key) ?? this.#add(identity);
    connection.users += 1;
    const release = (): void => {
      connection.users -= 1;
      connection.usedAt = this.#clock.monotonic();
    };
    try {
      return { caller: await connection.opening, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#stopSweeping();
    const all = [...this.#connections.values()];
    for (const connection of all) this.#end(connection);
    await Promise.all(all.map(({ opening }) => closed(opening)));
  }

  #add(identity: CallerIdentity): PooledConnection {
    const own = [...this.#connections.values()].filter((one) => one.identity.client === identity.client);
    if (own.length >= OF_CLIENT_MAX && !this.#endIdle(own))
      throw new TooManyRequests("the caller uses too many credentials at once", BUSY_MS);
    if (this.#connections.size >= CONNECTIONS_MAX && !this.#endIdle([...this.#connections.values()]))
      throw new FleetError("UNAVAILABLE", "too many callers are connected", {
        retryAfterMs: LIMITS.overload_retry_ms,
      });
    const ending = new AbortController();
    const connection: PooledConnection = {
      identity,
      opening: this.#admit(identity, ending),
      ending,
      users: 0,
      usedAt: this.#clock.monotonic(),
    };
    this.#connections.set(identity.key, connection);
    connection.opening.catch(() => this.#end(connection));
    return connection;
  }

  async #admit(identity: CallerIdentity, ending: AbortController): Promise<AdmittedCaller> {
    const { tenant, name, role, scopes, expiresAt, isApiKey = false } = identity;
    const credentials = await identity.credentials();
    const bus = await this.#open(identity, credentials).catch((error: unknown) => {
      throw error instanceof BusError ? refusal(error) : error;
    });
    // The library would reconnect by itself; a connection that was ended is not to be trusted again without its credentials.
    bus.onStatus((status) => {
      if (status === "connected" || status === "lame_duck") return;
      const connection = this.#connections.get(identity.key);
      if (connection?.ending === ending) this.#end(connection);
    });
    this.#log.info({ tenant, caller: name, role }, "caller connected");
    return { tenant, name, role, scopes, expiresAt, isApiKey, bus, ended: ending.signal };
  }

  #end(connection: PooledConnection): void {
    if (this.#connections.get(connection.identity.key) === connection)
      this.#connections.delete(connection.identity.key);
    if (connection.ending.signal.aborted) return;
    connection.ending.abort();
    void closed(connection.opening);
  }

  #sweep(): void {
    const now = this.#clock.monotonic();
    for (const connection of this.#connections.values()) {
      const isIdle = connection.users === 0 && now - connection.usedAt > IDLE_MS;
      if (isIdle || isOver(connection.identity, this.#clock)) this.#end(connection);
    }
  }

  /** Ends the one that was idle longest. False: all are in use. */
  #endIdle(connections: readonly PooledConnection[]): boolean {
    const idle = connections.filter(({ users }) => users === 0).sort((a, b) => a.usedAt - b.usedAt);
    if (idle[0] === undefined) return false;
    this.#end(idle[0]);
    return true;
  }
}

const isOver = ({ expiresAt }: Pick<CallerIdentity, "expiresAt">, clock: Clock): boolean =>
  expiresAt !== null && expiresAt <= clock.now();

async function closed(opening: Promise<AdmittedCaller>): Promise<void> {
  const caller = await opening.catch(() => undefined);
  await caller?.bus.close({ drainMs: DRAIN_MS }).catch(() => {});
}

function refusal(error: BusError): FleetError {
  if (error.kind === "permission")
    return new FleetError(
      "UNAUTHORIZED",
      "the bus refused the credentials: revoked, expired or of another fleet",
      {
        cause: error,
      },
    );
  return new FleetError("UNAVAILABLE", "the bus is not available", {
    details: { bus: error.kind },
    retryAfterMs: LIMITS.overload_retry_ms,
    cause: error,
  });
}
