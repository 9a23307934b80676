import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.metrics.JmxReporter;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints the settings of topics and brokers that the Kafka on the class path defines, as JSON. */
public class KafkaConfigs {
    private static final Pattern RANGE = Pattern.compile("\\[(-?[0-9.]*?),?\\.\\.\\.,?(-?[0-9.]*)\\]");

    public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
        ConfigDef broker = new ConfigDef(AbstractKafkaConfig.CONFIG_DEF)
            // What Kafka's own plugins read beside that.
            .define(StandardAuthorizer.SUPER_USERS_CONFIG, Type.STRING, "", ConfigDef.Importance.LOW, "")
            .define(StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG, Type.BOOLEAN, false, ConfigDef.Importance.LOW, "")
            .define(JmxReporter.INCLUDE_CONFIG, Type.STRING, "", ConfigDef.Importance.LOW, "")
            .define(JmxReporter.EXCLUDE_CONFIG, Type.STRING, "", ConfigDef.Importance.LOW, "");
        ConfigDef dynamic = new ConfigDef();
        dynamicNames().stream().filter(name -> !broker.names().contains(name)).forEach(name ->
            dynamic.define(name, Type.LONG, 0L, ConfigDef.Importance.LOW, ""));
        System.out.println("{");
        System.out.printf("\"version\": \"%s\",%n", version());
        System.out.printf("\"topic\": %s,%n", settings(LogConfig.configDefCopy()));
        System.out.printf("\"broker\": %s,%n", settings(broker));
        System.out.printf("\"dynamic\": %s%n}%n", settings(dynamic));
    }

    /** From Kafka's own resource, because the class that reads it is another one since 4.4. */
    private static String version() throws IOException {
        Properties properties = new Properties();
        try (InputStream resource = ConfigDef.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            properties.load(resource);
        }
        return properties.getProperty("version");
    }

    /** What a broker takes while it runs: of a class of Java since Kafka 4, of Scala before. */
    @SuppressWarnings("unchecked")
    private static Set<String> dynamicNames() throws ReflectiveOperationException {
        try {
            return (Set<String>) Class.forName("org.apache.kafka.server.config.DynamicBrokerConfig")
                .getField("ALL_DYNAMIC_CONFIGS").get(null);
        } catch (ClassNotFoundException older) {
            Object broker = Class.forName("kafka.server.DynamicConfig$Broker$").getField("MODULE$").get(null);
            return (Set<String>) broker.getClass().getMethod("names").invoke(broker);
        }
    }

    private static String settings(ConfigDef definitions) {
        return new TreeMap<>(definitions.configKeys()).values().stream()
            .map(key -> "\"" + key.name + "\": " + setting(key))
            .collect(Collectors.joining(",\n  ", "{\n  ", "\n}"));
    }

    private static String setting(ConfigKey key) {
        List<String> facts = new ArrayList<>();
        facts.add("\"type\": \"" + key.type.name().toLowerCase(Locale.ROOT) + "\"");
        String said = String.valueOf(key.validator);
        Matcher range = RANGE.matcher(said);
        if (key.validator instanceof ConfigDef.Range && range.matches()) {
            if (!range.group(1).isEmpty()) facts.add("\"least\": " + range.group(1));
            if (!range.group(2).isEmpty()) facts.add("\"most\": " + range.group(2));
        } else if (key.validator instanceof ConfigDef.ValidString || key.validator instanceof ConfigDef.ValidList) {
            words(facts, said);
        } else if (key.validator instanceof ConfigDef.CaseInsensitiveValidString) {
            words(facts, said);
            facts.add("\"any_case\": true");
        }
        return "{" + String.join(", ", facts) + "}";
    }

    /** From what a validator says of itself: [compact, delete], or nothing where it takes any word. */
    private static void words(List<String> facts, String said) {
        String inner = said.replaceAll("^.*\\[|\\].*$|^[^\\[]*$", "");
        if (!inner.isBlank())
            facts.add("\"words\": [\"" + inner.replace(", ", "\", \"") + "\"]");
    }
}
