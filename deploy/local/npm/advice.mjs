// The next step for the user after a failed npm, by its output.

const NETWORK =
  "The npm registry cannot be reached. Check the network, the proxy (npm config get https-proxy) and the registry " +
  "(npm config get registry), then run this again.";

const ADVICE = [
  [/\b(ENOSPC|EDQUOT)\b/, "The disk is full. Free some space, then run this again."],
  [
    /\b(EACCES|EPERM|EROFS)\b/,
    "npm may not write a file. Check the owner of this folder and of npm's cache (npm config get cache), then run this again.",
  ],
  [
    /CERT|SELF_SIGNED|UNABLE_TO_VERIFY/,
    "The certificate of the registry is not trusted. Set NODE_EXTRA_CA_CERTS to the certificate of your proxy, then run this again.",
  ],
  [
    /\b(E401|E403|ENEEDAUTH)\b/,
    "The registry refused the request. Check its credentials (npm whoami) and its address (npm config get registry).",
  ],
  [
    /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED|E50\d)\b|network|SOCKET_TIMEOUT/i,
    NETWORK,
  ],
  // The fault of npm 10 that ends with 0. Its usual cause is a missing network.
  [/Exit handler never called/, NETWORK],
];

/** One sentence or more; undefined if the output does not show the cause. */
export const adviceFor = (output) => ADVICE.find(([pattern]) => pattern.test(output))?.[1];

/** For an npm that ends with 0 and has not installed everything. */
export const adviceWithoutError = (output) =>
  adviceFor(output) ?? `npm reported no error; the usual cause is the network. ${NETWORK}`;
