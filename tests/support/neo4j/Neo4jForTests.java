import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import org.neo4j.configuration.GraphDatabaseSettings;
import org.neo4j.configuration.connectors.BoltConnector;
import org.neo4j.configuration.helpers.SocketAddress;
import org.neo4j.dbms.api.DatabaseManagementServiceBuilder;

/**
 * Two Neo4j servers on loopback, one open and one with a password, for as long as anybody is connected to a third port.
 *
 * Arguments: a folder, the three ports (open, with password or 0 for none, the one to hold on to), and the file in which the tests
 * note them; folder and file are removed in the end.
 * Whoever connects to that gets "ready" and keeps the connection. When the last one has gone, however it ended, or when
 * nobody has come within a minute, the servers stop. Nothing needs to remember to stop them.
 */
public final class Neo4jForTests {
    private static final int FIRST_MS = 60_000;
    private static int users = 0;

    public static void main(String[] args) throws Exception {
        Path home = Path.of(args[0]);
        serve(home.resolve("open"), Integer.parseInt(args[1]), false);
        if (Integer.parseInt(args[2]) > 0) {
            serve(home.resolve("password"), Integer.parseInt(args[2]), true);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            remove(home);
            Path.of(args[4]).toFile().delete();
            Runtime.getRuntime().halt(0);  // what the servers would write down before they end is removed already
        }));
        try (ServerSocket door = new ServerSocket(Integer.parseInt(args[3]), 64, InetAddress.getLoopbackAddress())) {
            door.setSoTimeout(FIRST_MS);
            while (true) {
                Socket user = door.accept();
                synchronized (Neo4jForTests.class) {
                    users++;
                }
                Thread watch = new Thread(() -> waitFor(user));
                watch.setDaemon(true);
                watch.start();
                door.setSoTimeout(0);
            }
        } catch (IOException nobodyCame) {
            System.exit(0);
        }
    }

    private static void serve(Path home, int port, boolean password) {
        new DatabaseManagementServiceBuilder(home)
            .setConfig(BoltConnector.enabled, true)
            .setConfig(BoltConnector.listen_address, new SocketAddress("127.0.0.1", port))
            .setConfig(BoltConnector.advertised_address, new SocketAddress("127.0.0.1", port))
            .setConfig(GraphDatabaseSettings.auth_enabled, password)
            .setConfig(GraphDatabaseSettings.preallocate_logical_logs, false)
            .setConfig(GraphDatabaseSettings.check_point_interval_time, Duration.ofHours(1))
            .setConfig(GraphDatabaseSettings.pagecache_memory, 64L * 1024 * 1024)
            .build();
    }

    private static void waitFor(Socket user) {
        try (user) {
            user.getOutputStream().write("ready\n".getBytes(StandardCharsets.US_ASCII));
            while (user.getInputStream().read() >= 0) { }
        } catch (IOException gone) {
            // its process was killed
        }
        synchronized (Neo4jForTests.class) {
            users--;
            if (users == 0) {
                System.exit(0);
            }
        }
    }

    private static void remove(Path folder) {
        try (var all = Files.walk(folder)) {
            all.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (IOException left) {
            System.err.println("left behind: " + folder);
        }
    }
}
