// The names of buckets of the bus, and of what is in them.

/** A bucket of the Object Store of the bus. The forms of its subjects are those of all clients of NATS. */
export function bucketOf(name: string) {
  const own = `$O.${name}`;
  return {
    name,
    stream: `OBJ_${name}`,
    everyContent: `${own}.C.>`,
    everyRecord: `${own}.M.>`,
    content: (id: string): string => `${own}.C.${id}`,
    record: (object: string): string =>
      `${own}.M.${Buffer.from(object).toString("base64").replaceAll("+", "-").replaceAll("/", "_")}`,
  } as const;
}

/** The bytes of artifacts, where FLEET_ARTIFACTS names the bus. */
export const ARTIFACT_BUCKET = bucketOf("FLEET_ARTIFACTS");
