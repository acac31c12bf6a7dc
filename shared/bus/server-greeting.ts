/**
 * The line with which a nats-server begins every connection, before credentials and TLS. It is read on a connection of its own where the
 * server has refused the credentials: the client library then keeps nothing of it.
 */
import { once } from "node:events";
import { connect } from "node:net";

const PORT_DEFAULT = 4222;

/** The name of the server; undefined if none answers in time, or another program does. Never rejects. */
export async function greetedName(url: string, timeoutMs: number): Promise<string | undefined> {
  if (!URL.canParse(url)) return undefined;
  const { hostname, port } = new URL(url);
  const host = hostname.replace(/^\[(.*)\]$/, "$1");
  const socket = connect({ host, port: Number(port) || PORT_DEFAULT });
  socket.setTimeout(timeoutMs, () => socket.destroy(new Error("no answer")));
  try {
    const [chunk] = (await once(socket, "data")) as [Buffer];
    return /^INFO .*"server_name":"([^"]*)"/.exec(chunk.toString())?.[1];
  } catch {
    return undefined;
  } finally {
    socket.destroy();
  }
}
