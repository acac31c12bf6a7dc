/** Whether only programs of this machine reach an address. */
import { BlockList, isIP } from "node:net";

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");

/** A name other than `localhost` may have any address, also at a later time. */
export function isLoopback(host: string): boolean {
  const version = isIP(host);
  if (version === 0) return host.toLowerCase() === "localhost";
  return LOOPBACK.check(host, version === 6 ? "ipv6" : "ipv4");
}
