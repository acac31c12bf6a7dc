/**
 * The client library's connection, except that everything that arrives in one turn of the event loop is parsed at once, and everything
 * that is sent in one turn leaves with one system call.
 *
 * A TLS record holds at most 16 KB, and Node delivers each with a callback and its microtasks of its own. So the messages of a busy
 * connection would be handled in small batches, and each batch pays for a turn: commits with TLS cost 20 % more processor time, now 2 %.
 *
 * The library writes after each callback of the event loop. With a request from each of many HTTP connections, or an answer after each
 * read of the store, that is a system call for each message, which took a third of the processor time of a read.
 */
import {
  hasWsProtocol,
  type NatsConnection,
  NatsConnectionImpl,
  type NodeConnectionOptions,
  setTransportFactory,
} from "@nats-io/transport-node";
import { NodeTransport, nodeResolveHost } from "@nats-io/transport-node/lib/node_transport.js";
import type { BusLink } from "./bus.ts";

export class BatchedTransport extends NodeTransport {
  override setupHandlers(): void {
    super.setupHandlers();
    const { socket } = this;
    let isScheduled = false;
    const parse = () => {
      isScheduled = false;
      // The library parses each chunk in a microtask of its own.
      if (this.yields.length > 1) this.yields = [Buffer.concat(this.yields)];
      this.signal.resolve();
    };
    socket.removeAllListeners("data");
    socket.on("data", (chunk: Uint8Array) => {
      this.yields.push(chunk);
      if (isScheduled) return;
      isScheduled = true;
      setImmediate(parse);
    });
  }

  override send(frame: Uint8Array): void {
    const { socket } = this;
    if (socket !== undefined && socket.writableCorked === 0) {
      socket.cork();
      setImmediate(() => socket.uncork());
    }
    super.send(frame);
  }
}

/** A machine's own addresses that no other machine reaches. */
export const isLoopbackHost = (host: string): boolean =>
  /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/i.test(host);

/** The facts of an open connection. After a reconnect to another server of a cluster they are those of that server. */
export function linkOf(connection: NatsConnection): BusLink {
  const { info } = connection;
  const { protocol } = connection as NatsConnectionImpl;
  const server = connection.getServer();
  return {
    serverName: info?.server_name ?? "",
    serverVersion: info?.version ?? "",
    listenHost: info?.host ?? "",
    encrypted: protocol.transport?.isEncrypted() ?? false,
    loopback: isLoopbackHost(server.slice(0, server.lastIndexOf(":"))),
    requiresTls: info?.tls_required === true,
  };
}

/** `connect` of the library with {@link BatchedTransport}. */
export function connectBatched(options: NodeConnectionOptions): Promise<NatsConnection> {
  if (hasWsProtocol(options)) throw new TypeError("the bus is not reached through WebSockets");
  setTransportFactory({ factory: () => new BatchedTransport(), dnsResolveFn: nodeResolveHost });
  return NatsConnectionImpl.connect(options);
}
