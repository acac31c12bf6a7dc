/** Addresses with passwords, for each program that finds these: the SDK, the hooks in Node and in the shell, and the shapes of secrets in texts. */

interface AddressCase {
  readonly name: string;
  /** Of a variable, or in a text. */
  readonly value: string;
  /** As they stand there. */
  readonly passwords: readonly string[];
}

export const ADDRESS_CASES: readonly AddressCase[] = [
  { name: "no at sign", value: "postgres://app:delta-Qz7@db:5432/app", passwords: ["delta-Qz7"] },
  { name: "an at sign", value: "postgres://app:delta@Qz7-echo@db:5432/app", passwords: ["delta@Qz7-echo"] },
  { name: "two at signs", value: "redis://app:d7@e@lta-Qz7@cache/0", passwords: ["d7@e@lta-Qz7"] },
  { name: "at signs side by side", value: "redis://app:delta@@Qz7@cache/0", passwords: ["delta@@Qz7"] },
  { name: "an at sign at the end", value: "redis://app:delta-Qz7@@cache/0", passwords: ["delta-Qz7@"] },
  { name: "an at sign and a comma", value: "redis://app:de@lta,Qz7@cache/0", passwords: ["de@lta,Qz7"] },
  {
    name: "an at sign and a code",
    value: "redis://app:d%65lta@Qz7-echo@cache/0",
    passwords: ["d%65lta@Qz7-echo"],
  },
  { name: "no user", value: "redis://:delta@Qz7-echo@cache:6379", passwords: ["delta@Qz7-echo"] },
  { name: "a mail address", value: "smtp://app@example.com:delta-Qz7@mail:25", passwords: ["delta-Qz7"] },
  {
    name: "a mail address and an at sign",
    value: "smtp://app@example.com:delta@Qz7-echo@mail:25",
    passwords: ["delta@Qz7-echo"],
  },
  { name: "a number sign", value: "postgres://app:delta#Qz7@db/app", passwords: ["delta#Qz7"] },
  {
    name: "at signs in the path",
    value: "https://app:delta-Qz7@host/a@b",
    passwords: ["delta-Qz7"],
  },
  {
    name: "at signs in the query",
    value: "https://app:delta-Qz7@host?mail=a@b.example",
    passwords: ["delta-Qz7"],
  },
  {
    name: "at signs in the fragment",
    value: "https://app:delta-Qz7@host#a@b.example",
    passwords: ["delta-Qz7"],
  },
  {
    name: "a list of addresses",
    value: "nats://a:delta@Qz7-1@one:4222,nats://b:delta@Qz7-2@two:4222",
    passwords: ["delta@Qz7-1", "delta@Qz7-2"],
  },
  {
    name: "a list of hosts",
    value: "amqp://a:delta-Qz7-1@one:5672,b:delta-Qz7-2@two:5672",
    passwords: ["delta-Qz7-1@one:5672,b:delta-Qz7-2"],
  },
  {
    name: "a structure",
    value: '{"db":"postgres://app:delta-Qz7@db","by":"app@example.com"}',
    passwords: ["delta-Qz7"],
  },
];
