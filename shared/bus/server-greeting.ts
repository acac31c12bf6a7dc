/**
 * What a nats-server answers before credentials and TLS, on a connection of its own: the line with which it begins every connection, and
 * whether it reads messages in clear text. The client library keeps nothing of the line where the server has refused the credentials.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";

const PORT_DEFAULT = 4222;

/** The name of the server; undefined if none answers in time, or another program does. Never rejects. */
export async function greetedName(url: string, timeoutMs: number): Promise<string | undefined> {
  if (!URL.canParse(url)) return undefined;
  const socket = openSocket(url, timeoutMs);
  try {
    const [chunk] = (await once(socket, "data")) as [Buffer];
    return /^INFO .*"server_name":"([^"]*)"/.exec(chunk.toString())?.[1];
  } catch {
    return undefined;
  } finally {
    socket.destroy();
  }
}

/** Answers of a server that has read a message in clear text, or has refused its credentials. */
const READ_PLAIN = /\r\n(?:PONG|\+OK|-ERR '(?!Secure Connection))/;

/**
 * Whether a server reads messages without TLS: it is asked without TLS. "unknown": it neither answers nor closes the connection in time.
 * Never rejects.
 */
export async function readsPlainText(url: string, timeoutMs: number): Promise<boolean | "unknown"> {
  if (!URL.canParse(url)) return "unknown";
  const socket = openSocket(url, timeoutMs);
  let isConnected = false;
  let answer = "";
  socket.once("connect", () => {
    isConnected = true;
    socket.write('CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n');
  });
  try {
    for await (const chunk of socket) {
      answer += (chunk as Buffer).toString("latin1");
      if (READ_PLAIN.test(answer)) return true;
    }
    return isConnected ? false : "unknown";
  } catch (error) {
    // A server that begins TLS at once closes the connection.
    return isConnected && (error as NodeJS.ErrnoException).code === "ECONNRESET" ? false : "unknown";
  } finally {
    socket.destroy();
  }
}

function openSocket(url: string, timeoutMs: number): Socket {
  const { hostname, port } = new URL(url);
  const host = hostname.replace(/^\[(.*)\]$/, "$1");
  const socket = connect({ host, port: Number(port) || PORT_DEFAULT });
  socket.setTimeout(timeoutMs, () => socket.destroy(new Error("no answer")));
  return socket;
}
